import { type Command, choice, command, notAllowed, one, value } from '../command.ts';
import { POLICY_OUTPUT } from './policy-output.ts';
import { policyWhy } from './policy-why.ts';

const END_TEXT = 'NAMESPACE/POD, an address, or host/NODE';
const FROM = one('from', END_TEXT);
const TO = one('to', END_TEXT);

export const POLICY_COMMANDS: readonly Command[] = [
  command({
    path: ['policy', 'why'],
    summary: 'Explains why policies allow or deny a connection.',
    arguments: [FROM, TO],
    options: {
      port: value('number', 'port of the destination, after translation of services', { read: portNumber }),
      protocol: choice('name', 'protocol; ICMP means an echo request', { choices: ['TCP', 'UDP', 'SCTP', 'ICMP'] }),
      output: POLICY_OUTPUT,
    },
    details: `
Both ends must allow a connection. For each end that is a pod, prints the policy or profile and the rule
that decides, and the policies that were considered before it. With pods of two IP families, each family
is explained. The answer is computed from the records of the datastore; packets are not sent. The exit
status is 1 when policies deny the connection.`,
    examples: [
      'netplugctl policy why shop/web-0 shop/db-0 --port 5432',
      'netplugctl policy why 192.0.2.7 shop/web-0 --port 443 -o json',
      'netplugctl policy why shop/web-0 host/node-1 --protocol UDP --port 53',
    ],
    run: async (context, { args: [from, to], options }) => policyWhy(context, { from, to }, options),
  }),
];

function portNumber(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65_535 ? port : notAllowed('Allowed is a port from 1 to 65535.');
}
