variable "name" {
  description = "Names everything that is made, and the table of the store."
  type        = string
  default     = "muster"
  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{3,40}$", var.name))
    error_message = "The name must have 3 to 40 letters, digits, - or _."
  }
}

variable "vpc_id" {
  description = "Where servers and nodes are."
  type        = string
}

variable "server_policies" {
  description = "The server's rights, by name: the output of `muster iam` and of `muster store policy`."
  type        = map(string)
}

variable "allowed_cidrs" {
  description = "From where people and programs reach the server. Put TLS in front of it."
  type        = list(string)
  default     = []
}

variable "port" {
  description = "Where the server listens."
  type        = number
  default     = 8420
}

variable "resource_classes" {
  description = "One queue each, of all resource classes."
  type        = list(string)
  default     = ["small", "large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "12xlarge", "16xlarge"]
}

variable "deletion_protection" {
  description = "Refuse to delete the store."
  type        = bool
  default     = true
}

variable "point_in_time_recovery" {
  description = "Let AWS keep 35 days of backups."
  type        = bool
  default     = true
}

variable "tags" {
  description = "For everything that is made."
  type        = map(string)
  default     = {}
}
