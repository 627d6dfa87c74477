import { type Command, command, flagOption, some, value, valueOr, values } from '../command.ts';
import { portNumber } from '../common-options.ts';
import { BIN_DIR, CONF_DIR, CONF_NAME } from '../../../install/places.ts';
import { connectToAll } from './connect.ts';
import { watchFlow } from './flow.ts';
import { examineNode } from './examine-node.ts';
import { PROBE_PORT, serveProbe } from './serve-probe.ts';

const CONNECT_SECONDS = 60;

export const PROBE_COMMANDS: readonly Command[] = [
  command({
    path: ['probe', 'serve'],
    summary: 'Answers HTTP requests and datagrams, as the other end of "probe connect" and "probe flow".',
    options: {
      port: valueOr('port', 'TCP and UDP port', { byDefault: PROBE_PORT, read: portNumber }),
      unfragmented: flagOption('answer datagrams without fragments, as the other end of "probe flow"'),
      closedPort: value('port', 'another port that answers, for what a policy keeps from it', { read: portNumber }),
    },
    details: `
Runs until it is interrupted. HTTP requests are answered with the name of the host, UDP datagrams with the
same datagram. "netplugctl install cluster" starts it in a pod on each node.`,
    examples: ['netplugctl probe serve'],
    run: async (context, { options }) => serveProbe(context, options),
  }),
  command({
    path: ['probe', 'connect'],
    summary: 'Sends a request to each URL, and reports which do not answer.',
    arguments: [some('url', 'URLs that must answer: http://HOST:PORT or udp://HOST:PORT')],
    options: { closed: values('url', 'URL that a policy must keep from answering; may be repeated') },
    details: `
Each URL is tried until the timeout of the command. A datagram to a udp:// URL fills a packet of the MTU of
this network namespace, and must come back whole. The exit status is 1 if a check fails.`,
    examples: [
      'netplugctl probe connect http://10.244.1.7:8080 http://10.96.3.4:8080',
      'netplugctl probe connect udp://10.244.1.7:8080 --closed http://10.244.1.7:8081',
    ],
    timeoutSeconds: CONNECT_SECONDS,
    run: async (context, { args: [urls], options: { closed } }) => connectToAll(context, { open: urls, closed }),
  }),
  command({
    path: ['probe', 'flow'],
    summary: 'Sends datagrams of two sizes to each URL until some are lost.',
    arguments: [some('url', 'udp://HOST:PORT of "probe serve"')],
    options: {
      port: valueOr('port', 'TCP port on which it says whether every URL answers', {
        byDefault: PROBE_PORT,
        read: portNumber,
      }),
      smallOnly: values('url', 'one of the URLs to which no full-size packets go; may be repeated'),
    },
    details: `
Of 20 small datagrams per second to each URL, every fifth is of a port of its own and so a new connection. One
datagram per second fills a packet of the MTU that the interface has at the start, and is never fragmented:
with 1500 bytes that is 12 kbit/s each way. Runs until it is interrupted.

When datagrams are not answered within 5 seconds, the command waits until new ones are, prints how many were
lost and for how long, and its exit status is 1. Late answers count. When full-size packets alone are lost, it
finds out which size arrives, and prints it. When they do not arrive from the start, the exit status is 1 as
well. "netplugctl upgrade apply" starts the command in pods on the nodes.`,
    examples: [
      'netplugctl probe flow udp://10.244.1.7:8080',
      'netplugctl probe flow udp://10.244.1.7:8080 udp://10.244.2.9:8080 --small-only udp://10.244.2.9:8080',
    ],
    run: async (context, { args: [urls], options }) => watchFlow(context, urls, options),
  }),
  command({
    path: ['probe', 'node'],
    summary: 'Checks whether netplug can be installed on this node.',
    options: {
      confDir: valueOr('folder', 'folder in which the runtime finds configurations', {
        byDefault: CONF_DIR,
        completes: 'folder',
      }),
      binDir: valueOr('folder', 'folder in which the runtime finds plugins', {
        byDefault: BIN_DIR,
        completes: 'folder',
      }),
      confName: valueOr('name', 'name of the conflist of netplug', { byDefault: CONF_NAME }),
      port: values('port', 'TCP port that must be free on 127.0.0.1; may be repeated'),
      keepsPlugin: flagOption('accept configurations of other plugins'),
      messageFile: value('file', 'file that gets what is printed as well, if that is something', { completes: 'file' }),
    },
    details: `
Looks for configurations of other plugins that the runtime reads first, folders that containerd does not
use, features of the kernel, and ports in use, and warns of what another plugin has left. "netplugctl install
cluster" runs it in a pod on each node. The exit status is 1 if something would keep netplug from working.`,
    examples: ['netplugctl probe node --port 9098'],
    run: async (context, { options }) => examineNode(context, { ...options, ports: options.port.map(portNumber) }),
  }),
];
