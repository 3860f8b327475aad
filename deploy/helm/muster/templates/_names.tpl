{{- define "muster.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "muster.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "muster.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{- define "muster.inside" -}}
http://{{ include "muster.name" . }}.{{ .Release.Namespace }}.svc:{{ .Values.service.port }}
{{- end }}

{{- define "muster.check" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.storeSecret) -}}
{{- fail "replicas > 1 needs storeSecret: SQLite has one server" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.host) -}}
{{- fail "ingress.enabled needs ingress.host" -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor (not .Values.metrics.tokenSecret) -}}
{{- fail "metrics.serviceMonitor needs metrics.tokenSecret: a viewer's token" -}}
{{- end -}}
{{- end }}
