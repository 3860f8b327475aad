output "store" {
  description = "For server.store, or MUSTER_STORE."
  value       = "dynamodb://${aws_dynamodb_table.store.name}?region=${data.aws_region.here.name}"
}

output "server_instance_profile" {
  value = aws_iam_instance_profile.server.name
}

output "server_security_group" {
  value = aws_security_group.server.id
}

output "node_instance_profile" {
  description = "For instance_profile of [templates.NAME.ec2]."
  value       = aws_iam_instance_profile.node.arn
}

output "node_security_group" {
  description = "For security_groups of [templates.NAME.ec2]."
  value       = aws_security_group.node.id
}

data "aws_region" "here" {}
