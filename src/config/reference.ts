import { fieldTable } from '../model/schema-table.ts';
import { netconfJsonSchema } from './schema.ts';

/** The reference page of the network configuration, in Markdown. Written from the declaration, never by hand. */
export function netconfReference(): string {
  const { properties = {} } = netconfJsonSchema();
  return [
    '# Network configuration',
    '',
    'Written by `npm run docs:write` from the declaration in `src/netconf`; do not edit.',
    '',
    'Keys of the CNI standard (`prevResult`, `runtimeConfig`, `capabilities`, `args`, `dns`, `cni.dev/…`) pass through.',
    'A key that is nearly one of these is refused; any other unknown key is ignored with a warning.',
    'An empty string is the same as leaving the option out.',
    '',
    ...fieldTable({ properties }),
    '',
  ].join('\n');
}
