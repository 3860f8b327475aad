"""Make clusters on Azure Kubernetes Service, through Azure's own SDKs. Needs the extra `azure`.

provider    the cluster port                       plan      what a template comes to for one cluster
steps       the steps, and what is shown of them   decisions what becomes of a cluster next
creation    what the steps of a create do          removal   what the steps of a removal do
azure       what they need of Azure                sight     what a look at Azure shows
lazy_sdk    loads the rest at the first call       sdk       Azure through its SDKs
clients     their clients, one set per subscription   bodies    requests and answers
errors      their errors, translated once          credentials  where Azure's credentials come from
"""
