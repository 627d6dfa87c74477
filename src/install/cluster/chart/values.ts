import { stringify } from 'yaml';
import { resourceJsonSchema } from '../../../model/resource-schema.ts';
import { isRecord } from '../../../model/read-schema.ts';

/** Defaults of the chart. Those of the installation are in the operator. */
const OPERATOR = { replicas: 1, resources: {}, nodeSelector: {}, tolerations: [{ operator: 'Exists' }] } as const;

const KUBERNETES_OBJECT = { type: 'object' } as const;
const OPERATOR_SCHEMA = {
  type: 'object',
  additionalProperties: false,
  properties: {
    replicas: { type: 'integer', minimum: 1, maximum: 2, description: 'Pods of the operator; one of them works.' },
    resources: { ...KUBERNETES_OBJECT, description: 'Requests and limits of the operator.' },
    nodeSelector: { ...KUBERNETES_OBJECT, description: 'Further labels of the nodes that the operator may run on.' },
    tolerations: {
      type: 'array',
      items: KUBERNETES_OBJECT,
      description: 'Tolerations of the operator. It must run before the network of the nodes works.',
    },
  },
} as const;

/** Returns the schema of the values, which helm checks. */
export function valuesSchema(): object {
  const { properties } = resourceJsonSchema('Installation');
  const spec: unknown = properties?.['spec'];
  const fields = isRecord(spec) && isRecord(spec['properties']) ? spec['properties'] : {};
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    type: 'object',
    additionalProperties: false,
    properties: {
      installation: {
        ...(isRecord(spec) ? spec : {}),
        description: 'The spec of the Installation, and whether the chart creates one.',
        properties: {
          enabled: { type: 'boolean', description: 'Whether the chart creates an Installation.' },
          ...fields,
        },
      },
      operator: OPERATOR_SCHEMA,
      // Charts that contain this one pass it on.
      global: KUBERNETES_OBJECT,
    },
  };
}

export function valuesFile(): string {
  return `# The spec of the Installation "default": every field of docs/resources.md#installation may stand here. What is not set has the
# default of the operator.
installation:
  # Whether the chart creates the Installation.
  enabled: true
  # calicoNetwork:
  #   ipPools:
  #     - cidr: 10.244.0.0/16
  # registry: registry.example/netplug

# Pods of the operator.
operator:
${stringify(OPERATOR)
  .trimEnd()
  .split('\n')
  .map((line) => `  ${line}`)
  .join('\n')}
`;
}
