# Muster on EC2: IAM for server and nodes, their networks, and a store on DynamoDB with SQS. See docs/install.md.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.40"
    }
  }
}

data "aws_iam_policy_document" "ec2" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

# --- who may do what ------------------------------------------------------------------------------------------

resource "aws_iam_role" "server" {
  name               = "${var.name}-server"
  assume_role_policy = data.aws_iam_policy_document.ec2.json
  tags               = var.tags
}

resource "aws_iam_role_policy" "server" {
  for_each = var.server_policies
  name     = each.key
  role     = aws_iam_role.server.id
  policy   = each.value
}

resource "aws_iam_instance_profile" "server" {
  name = "${var.name}-server"
  role = aws_iam_role.server.name
  tags = var.tags
}

# Nodes prove who they are by their signed identity document, so their role needs no right.
resource "aws_iam_role" "node" {
  name               = "${var.name}-node"
  assume_role_policy = data.aws_iam_policy_document.ec2.json
  tags               = var.tags
}

resource "aws_iam_instance_profile" "node" {
  name = "${var.name}-node"
  role = aws_iam_role.node.name
  tags = var.tags
}

# --- networks -------------------------------------------------------------------------------------------------

resource "aws_security_group" "node" {
  name        = "${var.name}-node"
  description = "Nodes of Muster: they call out, nothing calls in"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "node" {
  security_group_id = aws_security_group.node.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}

resource "aws_security_group" "server" {
  name        = "${var.name}-server"
  description = "Servers of Muster"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_egress_rule" "server" {
  security_group_id = aws_security_group.server.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}

resource "aws_vpc_security_group_ingress_rule" "nodes" {
  security_group_id            = aws_security_group.server.id
  description                  = "Agents"
  ip_protocol                  = "tcp"
  from_port                    = var.port
  to_port                      = var.port
  referenced_security_group_id = aws_security_group.node.id
}

resource "aws_vpc_security_group_ingress_rule" "people" {
  for_each          = toset(var.allowed_cidrs)
  security_group_id = aws_security_group.server.id
  description       = "People and programs"
  ip_protocol       = "tcp"
  from_port         = var.port
  to_port           = var.port
  cidr_ipv4         = each.value
}

# --- the store ------------------------------------------------------------------------------------------------

# As `muster store create` would make it; a test of the repository compares both.
resource "aws_dynamodb_table" "store" {
  name                        = var.name
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "PK"
  range_key                   = "SK"
  deletion_protection_enabled = var.deletion_protection
  tags                        = var.tags

  dynamic "attribute" {
    for_each = toset(["PK", "SK", "es", "lp", "ls", "sp", "ss", "tp", "ts"])
    content {
      name = attribute.value
      type = "S"
    }
  }

  local_secondary_index {
    name            = "told"
    range_key       = "es"
    projection_type = "ALL"
  }

  dynamic "global_secondary_index" {
    for_each = { listed = ["lp", "ls"], scoped = ["sp", "ss"], timed = ["tp", "ts"] }
    content {
      name            = global_secondary_index.key
      hash_key        = global_secondary_index.value[0]
      range_key       = global_secondary_index.value[1]
      projection_type = "KEYS_ONLY"
    }
  }

  ttl {
    attribute_name = "expires"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = var.point_in_time_recovery
  }
}

resource "aws_sqs_queue" "candidates" {
  for_each                  = toset(var.resource_classes)
  name                      = "${var.name}-${each.value}"
  message_retention_seconds = 345600
  tags                      = var.tags
}
