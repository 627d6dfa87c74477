import { markdownTable } from '../markdown-table.ts';
import type { CheckInfo, Scope } from './topic.ts';
import { TOPICS, UNEXAMINED, unexaminedId } from './topics.ts';

const WHERE: Readonly<Record<Scope, string>> = { node: 'the node it runs on', cluster: 'the cluster' };

/** The page about `netplugctl doctor`: every check there is. */
export function doctorPage(): string {
  const areas = TOPICS.map(({ area, scope, checks }) => {
    const rows = [...checks, { id: unexaminedId(area), ...UNEXAMINED }].map(row);
    return `## ${area}\n\nLooks at ${WHERE[scope]}.\n\n${markdownTable(['Finding', 'Severity', 'Expected'], rows)}`;
  });
  return `# netplugctl doctor

Looks for what is wrong with a node and the cluster, and changes nothing. Each finding says what was found, what is expected and what to do, with a command where one does it; \`netplugctl doctor -o json\` gives the same as data. The id of a finding stays, so that tools can rely on it. [The manual](netplugctl.md#doctor) has the options.

- An **error** is something that does not work, or is about to fail; the exit status is then 1.
- A **warning** is something that somebody should look at.
- A **note** is good to know.

The cluster is asked with the connection of the command; on a node where nothing says how to reach the datastore, with that of the network configuration. Facts are gathered at the same time for all areas, each for 12 s at most; an area whose facts cannot be had is a finding of its own, and areas that need the datastore are left out while it cannot be used. What is left out is told with the reason.

What the kernel can do is tried, in a network namespace that goes with the trial. Credential plugins of a kubeconfig are not run to look at what they would give. Ranges of services are not compared with pools: netplug does not know them.

${areas.join('\n\n')}
`;
}

function row({ id, severity, expected }: CheckInfo): string[] {
  return [`\`${id}\``, severity, expected];
}
