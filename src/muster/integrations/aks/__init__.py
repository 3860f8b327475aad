"""Clusters on Azure Kubernetes Service, through Azure's own SDKs. Needs the extra `azure`.

deferred     the cluster port, which loads the rest when it is first asked; says so if the extra is missing
provider     the cluster port itself              clients   the SDKs' clients, one set per subscription
bodies       what is sent, and what is read       failing   the SDKs' errors, translated once
credentials  who we are to Azure
"""
