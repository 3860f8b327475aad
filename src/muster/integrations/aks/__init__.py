"""Make clusters on Azure Kubernetes Service, through Azure's own SDKs. Needs the extra `azure`.

lazy_provider  loads the rest at the first call; says if the extra is missing
provider       the cluster port itself            clients   the SDKs' clients, one set per subscription
bodies         requests and answers               errors    the SDKs' errors, translated once
credentials    where Azure's credentials come from
"""
