import { type Command, command, flagOption, notAllowed, some, valueOr, values } from '../command.ts';
import { CONF_DIR, CONF_NAME } from '../../../install/places.ts';
import { connectToAll } from './connect.ts';
import { examineNode } from './examine-node.ts';
import { PROBE_PORT, serveProbe } from './serve-probe.ts';

const CONNECT_SECONDS = 60;

export const PROBE_COMMANDS: readonly Command[] = [
  command({
    path: ['probe', 'serve'],
    summary: 'Answers HTTP requests, as the other end of "probe connect".',
    options: { port: valueOr('port', 'TCP port', { byDefault: PROBE_PORT, read: port }) },
    details: `
Runs until it is interrupted. "netplugctl install cluster" starts it in a pod on each node.`,
    examples: ['netplugctl probe serve'],
    run: async (context, { options }) => serveProbe(context, options),
  }),
  command({
    path: ['probe', 'connect'],
    summary: 'Sends an HTTP request to each URL, and reports which do not answer.',
    arguments: [some('url', 'URLs to send a request to')],
    details: `
A request is repeated until the timeout of the command. The exit status is 1 if a URL has not answered.`,
    examples: ['netplugctl probe connect http://10.244.1.7:8080 http://10.96.3.4:8080'],
    timeoutSeconds: CONNECT_SECONDS,
    run: async (context, { args: [urls] }) => connectToAll(context, urls),
  }),
  command({
    path: ['probe', 'node'],
    summary: 'Checks whether netplug can be installed on this node.',
    options: {
      confDir: valueOr('folder', 'folder in which the runtime finds configurations', {
        byDefault: CONF_DIR,
        completes: 'folder',
      }),
      confName: valueOr('name', 'name of the conflist of netplug', { byDefault: CONF_NAME }),
      port: values('port', 'TCP port that must be free on 127.0.0.1; may be repeated'),
      keepsPlugin: flagOption('accept configurations of other plugins'),
    },
    details: `
Looks for configurations of other plugins that the runtime reads first, features of the kernel, and ports
in use. "netplugctl install cluster" runs it in a pod on each node. The exit status is 1 if something would
keep netplug from working.`,
    examples: ['netplugctl probe node --port 9098'],
    run: async (context, { options }) => examineNode(context, { ...options, ports: options.port.map(port) }),
  }),
];

function port(text: string): number {
  const number = Number(text);
  return /^\d{1,5}$/.test(text) && number > 0 && number < 65_536
    ? number
    : notAllowed('Allowed is a port from 1 to 65535.');
}
