import type { ExplainedHost } from './explain-host.ts';
import { PATH_TEXTS } from './render-connections.ts';
import { labelLines, paragraphs, policyLines, profileLines } from './render-endpoints.ts';

/** Renders labels, what applies to each path of packets, and profiles of each host endpoint. */
export function renderHosts({ hostEndpoints }: { readonly hostEndpoints: readonly ExplainedHost[] }): string {
  return paragraphs(hostEndpoints.map(hostLines));
}

function hostLines(host: ExplainedHost): readonly string[] {
  const { hostEndpoint, node, interfaces, addresses, labels, profiles } = host;
  return [
    `HostEndpoint ${hostEndpoint} of node ${node}: ${interfaces}`,
    ...(addresses.length === 0 ? [] : [`  addresses: ${addresses.join(', ')}`]),
    ...labelLines(labels),
    ...(['ingress', 'egress'] as const).flatMap((direction) => directionLines(direction, host[direction])),
    ...profileLines(profiles),
  ];
}

function directionLines(direction: 'ingress' | 'egress', { open, paths }: ExplainedHost['ingress']): readonly string[] {
  return [
    `  ${direction}, in order`,
    `    always open${open.length === 0 ? ': nothing' : ''}`,
    ...open.map((each) => `      ${each}`),
    ...paths.flatMap(({ path, policies, otherwise }) => [
      `    ${PATH_TEXTS[path]}: ${policies.length === 0 ? `no policy, packets ${OTHERWISE[otherwise]}` : `policies in order, then ${OTHERWISE[otherwise]}`}`,
      ...policyLines(policies).map((line) => `  ${line}`),
    ]),
  ];
}

const OTHERWISE = {
  denied: 'denied',
  'profiles decide': 'as profiles decide',
  pass: 'pass',
  'go on': 'go on',
} as const;
