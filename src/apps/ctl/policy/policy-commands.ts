import { type Command, choice, command, flagOption, mandatory, one, textLike, value } from '../command.ts';
import { DOCUMENT_OUTPUT, fileChoice, FILES, portNumber } from '../common-options.ts';
import { NAMESPACE } from '../resources/resource-options.ts';
import { MAP_OUTPUTS, policyMap } from './policy-map.ts';
import { policyPlan } from './policy-plan.ts';
import { policyWhy } from './policy-why.ts';
import { FLOW_FILES } from './read-flow-files.ts';
import { runExplainEndpoint } from './run-explain-endpoint.ts';

const END_TEXT = 'NAMESPACE/POD, an address, or host/NODE';
const FROM = one('from', END_TEXT);
const TO = one('to', 'NAMESPACE/POD, an address, host/NODE, or a Service as svc/NAME or svc/NAMESPACE/NAME');
const ENDPOINT = one('endpoint', 'NAMESPACE/POD, or host/NODE for the host endpoints of a node', {
  read: textLike(/^[^/]+\/[^/]+$/, 'Allowed is NAMESPACE/POD or host/NODE.'),
});

export const POLICY_COMMANDS: readonly Command[] = [
  command({
    path: ['policy', 'why'],
    summary: 'Explains why policies allow or deny a connection.',
    arguments: [FROM, TO],
    options: {
      port: value('number', 'port that the client asks for (default: the only one of a Service)', { read: portNumber }),
      protocol: choice('name', 'protocol; ICMP means an echo request', { choices: ['TCP', 'UDP', 'SCTP', 'ICMP'] }),
      method: value('method', 'method of a request, such as GET; then the rules about requests are judged as well'),
      path: value('path', 'path of the request, as a client writes it (default: /)'),
      account: value('namespace/name', 'service account that the certificate of the client names'),
      probe: flagOption('also send a packet from this node, and compare what its kernel does with it'),
      output: DOCUMENT_OUTPUT,
    },
    details: `
Both ends must allow a connection. For each end that is a pod, prints the policy or profile and the rule
that decides, and the policies that were considered before it. With pods of two IP families, each family
is explained. The answer is computed from the records of the datastore. The exit status is 1 when
policies deny the connection.

To a Service, by its name or its address, every backend is judged that kube-proxy may choose. The exit
status is 1 unless all are allowed. What is judged is the packet that each node sees: a line says where
a tunnel, natOutgoing, a floating IP or a Service gives it other addresses.

With --method, explains what policies say of a request; without it, rules with http may allow some requests.
A request reaches a pod only where its netplug-sidecar guards the port: "netplugctl node status" shows that.

With --probe, run as root on the node of one end, sends a real packet, follows it through the kernel,
and says where verdict and rule agree or differ. The exit status is 1 also when they do not agree.`,
    examples: [
      'netplugctl policy why shop/web-0 shop/db-0 --port 5432',
      'netplugctl policy why shop/web-0 svc/db --port 5432',
      'netplugctl policy why 192.0.2.7 shop/web-0 --port 443 -o json',
      'netplugctl policy why shop/web-0 host/node-1 --protocol UDP --port 53',
      'netplugctl policy why shop/web-0 shop/db-0 --port 5432 --probe',
      'netplugctl policy why shop/gateway-0 shop/web-0 --port 8080 --method GET --path /items/1',
    ],
    run: async (context, { args: [from, to], options }) => policyWhy(context, { from, to }, options),
  }),
  command({
    path: ['policy', 'plan'],
    summary: 'Shows which connections a change of policies would cut and open.',
    options: {
      ...FILES,
      filename: mandatory(FILES.filename),
      delete: flagOption('plan the deletion of the resources instead of applying them'),
      ...NAMESPACE,
      ...FLOW_FILES,
      output: DOCUMENT_OUTPUT,
    },
    details: `
Compares the policies of the datastore with those after the change, for all pods, nodes and networks that
rules name, all protocols and all ports. Warns when DNS, the DNS cache of a node (node-local-dns), the API
server or a system namespace is cut off.
With --flows, lists the connections that were seen and would be cut first. Writes nothing. The exit status
is 1 when a connection would be cut.`,
    examples: ['netplugctl policy plan -f new.yaml', 'netplugctl policy plan -f old.yaml --delete -o json'],
    run: async (context, { options: { namespace, output, flows, delete: isDeletion, ...files } }) =>
      policyPlan(context, {
        files: fileChoice(files),
        namespace,
        verb: isDeletion ? 'delete' : 'apply',
        flows,
        output,
      }),
  }),
  command({
    path: ['policy', 'map'],
    summary: 'Shows who reaches whom by the policies of the cluster.',
    options: {
      namespace: value('namespace', 'only pods of this namespace, and what they exchange traffic with', { short: 'n' }),
      by: choice('division', 'what a row stands for; auto means namespaces when there are many workloads', {
        choices: ['auto', 'workload', 'namespace'],
      }),
      output: choice('format', 'output format', { choices: MAP_OUTPUTS, short: 'o' }),
    },
    details: `
Rows send to columns: workloads by the labels of their pods, nodes, the API server and the networks that
rules name. All protocols and ports are considered. A dash stands for pairs that were not considered, such
as two ends outside the namespace. The answer is computed from the records of the datastore; packets are
not sent.`,
    examples: ['netplugctl policy map --namespace shop', 'netplugctl policy map -o html > map.html'],
    run: async (context, { options }) => policyMap(context, options),
  }),
  command({
    path: ['explain', 'endpoint'],
    summary: 'Lists what policies see of a pod or of the host endpoints of a node, and which of them apply.',
    arguments: [ENDPOINT],
    options: { output: DOCUMENT_OUTPUT },
    details: `
Prints labels with those of namespace and service account, the policies that apply in each direction in
the order of their evaluation, with their rules, and the profiles, which decide when no policy applies
or a rule passes to them. For host endpoints, the policies of each path of packets are listed, after the
ports that no policy closes. The answer is computed from the records of the datastore.`,
    examples: ['netplugctl explain endpoint shop/web-0', 'netplugctl explain endpoint host/node-1'],
    run: async (context, { args: [endpoint], options }) => runExplainEndpoint(context, endpoint, options),
  }),
];
