{{- define "sluice.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "sluice.group" -}}
{{- default (include "sluice.name" .) .Values.worker.groupId -}}
{{- end -}}

{{- define "sluice.connectors" -}}
{{- if .Values.connectorsConfigMap -}}
{{- .Values.connectorsConfigMap -}}
{{- else -}}
{{- printf "%s-connectors" (include "sluice.name" .) -}}
{{- end -}}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluice.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The worker's properties file. Keys of worker.config come last, so that they win. */ -}}
{{- define "sluice.properties" -}}
bootstrap.servers={{ required "kafka.bootstrapServers is required" .Values.kafka.bootstrapServers }}
group.id={{ include "sluice.group" . }}
config.storage.topic={{ include "sluice.group" . }}-configs
offset.storage.topic={{ include "sluice.group" . }}-offsets
status.storage.topic={{ include "sluice.group" . }}-status
config.storage.replication.factor={{ .Values.worker.replicationFactor }}
offset.storage.replication.factor={{ .Values.worker.replicationFactor }}
status.storage.replication.factor={{ .Values.worker.replicationFactor }}
listeners=http://:{{ .Values.worker.port }}
rest.advertised.host.name=${env:SLUICE_POD_HOST}
rest.advertised.port={{ .Values.worker.port }}
connectors.dir=/etc/sluice/connectors
config.providers=env{{ if .Values.secrets }},dir{{ end }}
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern={{ .Values.envPattern }}
{{- if .Values.secrets }}
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.dir.param.allowed.paths=/run/secrets
{{- end }}
{{- range $key, $value := .Values.worker.config }}
{{ $key }}={{ $value }}
{{- end }}
{{- end -}}
