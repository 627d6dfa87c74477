import { expect, it } from 'vitest';
import { judgedProbes, type ProbedContainer } from './judged-probes.ts';

const SIDECAR: ProbedContainer = { name: 'netplug-sidecar', image: 'netplug.io/netplug-sidecar:v3.27.0' };
const PROXY: ProbedContainer = { name: 'istio-proxy', readinessProbe: { httpGet: { port: 8888, path: '/healthz' } } };
const get = (port: number | string, path = '/live', more: object = {}): ProbedContainer => ({
  name: 'app',
  ports: [{ name: 'web', containerPort: 8080 }],
  livenessProbe: { httpGet: { port, path, ...more } },
});
const judge = (container: ProbedContainer, annotations: Readonly<Record<string, string>> = {}): readonly number[] =>
  judgedProbes([PROXY, SIDECAR, container], annotations);

it.each<[string, ProbedContainer, readonly number[]]>([
  ['by HTTP', get(8080), [8080]],
  ['by HTTP to a port by name', get('web'), [8080]],
  ['by gRPC', { name: 'app', startupProbe: { grpc: { port: 9000 } } }, [9000]],
  ['that the mesh has rewritten', get(15_020, '/app-health/app/livez'), []],
  ['that the mesh has rewritten to another port of its agent', get(15_999, '/app-health/app/livez'), []],
  ['of another host', get(8080, '/live', { host: '192.0.2.1' }), []],
  ['to a port that has no such name', get('other'), []],
  ['by TCP', { name: 'app', livenessProbe: {} }, []],
])('tells whether the sidecar judges a probe %s', (_, container, ports) => {
  expect(judge(container)).toEqual(ports);
});

it('leaves out ports that the proxy is not handed, and pods without a sidecar', () => {
  expect(judge(get(8080), { 'traffic.sidecar.istio.io/excludeInboundPorts': '8080' })).toEqual([]);
  expect(judgedProbes([PROXY, get(8080)], {})).toEqual([]);
});
