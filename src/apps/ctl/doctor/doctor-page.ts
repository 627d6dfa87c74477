import { markdownTable } from '../../../base/markdown-table.ts';
import type { CheckInfo } from '../../../checks/check.ts';
import type { Scope } from './topic.ts';
import { TOPICS, UNEXAMINED, unexaminedId } from './topics.ts';

const WHERE: Readonly<Record<Scope, string>> = { node: 'the node on which the command runs', cluster: 'the cluster' };

/** Returns the page about `netplugctl doctor`, with every check. */
export function doctorPage(): string {
  const areas = TOPICS.map(({ area, scope, checks }) => {
    const rows = [...checks, { id: unexaminedId(area), ...UNEXAMINED }].map(row);
    return `## ${area}\n\nExamines ${WHERE[scope]}.\n\n${markdownTable(['Finding', 'Severity', 'Expected'], rows)}`;
  });
  return `# netplugctl doctor

Finds problems of a node and the cluster, and changes nothing. Each finding states what was found, what is expected and a remedy, if possible as a command. \`netplugctl doctor -o json\` prints the findings as JSON. The id of a finding is stable, so that tools can rely on it. [The manual](netplugctl/doctor.md#doctor) lists the options.

- An **error** is something that does not work, or is about to fail; the exit status is then 1.
- A **warning** needs attention.
- A **note** is good to know.

The doctor reads the cluster with the connection of the command. On a node where the command has no connection, it uses that of the network configuration. It examines all areas concurrently, each for at most 12 s. An area whose facts cannot be gathered is reported as a finding of its own. While the datastore is unavailable, areas that need it are left out; the report has the reason.

The doctor tests the features of the kernel in a temporary network namespace. It does not run credential plugins of a kubeconfig. It does not compare service CIDRs with pools, because netplug does not know them.

${areas.join('\n\n')}
`;
}

function row({ id, severity, expected }: CheckInfo): string[] {
  return [`\`${id}\``, severity, expected];
}
