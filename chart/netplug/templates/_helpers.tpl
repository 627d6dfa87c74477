{{- define "netplug.image" -}}
{{ .Values.installation.registry | default "netplug.io" | trimSuffix "/" }}/netplug:{{ .Chart.AppVersion }}
{{- end }}
