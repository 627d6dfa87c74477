import type { ExplainedEndpoint } from './explain-endpoint.ts';
import type { ShownRule } from './shown-rule.ts';

/** Renders labels, policies by direction, and profiles of each attachment. */
export function renderEndpoints({ endpoints }: { readonly endpoints: readonly ExplainedEndpoint[] }): string {
  return paragraphs(endpoints.map(endpointLines));
}

/** Renders paragraphs of lines with an empty line between them. */
export function paragraphs(all: readonly (readonly string[])[]): string {
  return all.map((lines) => lines.map((line) => `${line}\n`).join('')).join('\n');
}

function endpointLines(endpoint: ExplainedEndpoint): readonly string[] {
  const { pod, node, interface: link, addresses, labels, profiles } = endpoint;
  return [
    `${pod} on node ${node}${link === undefined ? '' : `, interface ${link}`}`,
    `  addresses: ${addresses.length === 0 ? 'none: the pod has finished' : addresses.join(', ')}`,
    ...labelLines(labels),
    ...(['ingress', 'egress'] as const).flatMap((direction) => directionLines(direction, endpoint[direction])),
    ...profileLines(profiles),
  ];
}

export function labelLines(labels: ExplainedEndpoint['labels']): readonly string[] {
  const known = Object.entries(labels);
  return [
    `  labels, as policies see them${known.length === 0 ? ': none' : ''}`,
    ...known.map(([label, value]) => `    ${label}=${value}`),
  ];
}

export function profileLines(profiles: ExplainedEndpoint['profiles']): readonly string[] {
  return [
    `  profiles, in order${profiles.length === 0 ? ': none' : ''}`,
    ...profiles.flatMap(({ profile, exists, ingress, egress }) => [
      `    ${profile}${exists ? '' : ' (does not exist)'}`,
      ...ruleLines([...ingress, ...egress]),
    ]),
  ];
}

function directionLines(
  direction: 'ingress' | 'egress',
  { policies, otherwise }: ExplainedEndpoint['ingress'],
): readonly string[] {
  if (policies.length === 0) return [`  ${direction}: no policy applies, profiles decide`];
  return [`  ${direction}: policies in order, then ${otherwise}`, ...policyLines(policies)];
}

export function policyLines(policies: ExplainedEndpoint['ingress']['policies']): readonly string[] {
  return policies.flatMap(({ policy, isStaged, rules }) => [
    `    ${policy}${isStaged ? ' (staged, not enforced)' : ''}${rules.length === 0 ? ': no rules' : ''}`,
    ...ruleLines(rules),
  ]);
}

function ruleLines(rules: readonly ShownRule[]): readonly string[] {
  return rules.map(({ place, text }) => `      ${place}: ${text}`);
}
