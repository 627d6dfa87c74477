import { describe, expect, it } from 'vitest';
import { inspectNetconf } from '../../../config/decode.ts';
import { placeAt } from '../documents.ts';
import { lintSource } from './lint-source.ts';

const lines = (text: string, name = 'x.conflist'): string[] =>
  lintSource({ name, text }).map(
    ({ severity, problem, file, region }) => `${placeAt(file, region)} ${severity} ${problem.path}`,
  );

const MAIN = '{"type": "netplug", "kv_endpoints": "http://a:1", "ipam": {"type": "netplug-ipam"}}';
const list = (entries: string, head = '"name": "n", "cniVersion": "1.0.0"'): string =>
  `{${head}, "plugins": [\n${entries}\n]}`;

describe('lint of a list', () => {
  it('accepts portmap and bandwidth entries of the specification [lint-chain]', () => {
    const chained =
      '{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}},\n{"type": "bandwidth", "capabilities": {"bandwidth": true}}';
    expect(lines(list(`${MAIN},\n${chained}`))).toEqual([]);
  });

  it('reports wrong fields of chained plugins, and unsupported plugins [lint-chain]', () => {
    const chained = [
      '{"type": "portmap", "snat": "true", "capabilities": {"portMapping": true}}',
      '{"type": "bandwidth", "capabilities": {"bandwidth": 1}}',
      '{"type": "tuning"}',
    ].join(',\n');
    expect(lines(list(`${MAIN},\n${chained}`))).toEqual([
      'x.conflist:3:21 error plugins[1].snat',
      'x.conflist:3:54 error plugins[1].capabilities.portMapping',
      'x.conflist:4:40 error plugins[2].capabilities.bandwidth',
      'x.conflist:5:2 warning plugins[3].type',
    ]);
  });

  it('reports TLS files beside a plain endpoint at the endpoint', () => {
    const main = MAIN.replace('"ipam"', '"kv_key_file": "/k", "kv_cert_file": "/c", "ipam"');
    expect(lines(list(main))).toEqual(['x.conflist:2:21 error plugins[0].kv_endpoints']);
  });

  it('requires CNI 0.3.0 for a chain, and netplug as its first plugin [lint-chain]', () => {
    expect(lines(list(MAIN, '"name": "n", "cniVersion": "0.2.0"'))).toEqual(['x.conflist:1:15 error cniVersion']);
    const behind = list(`{"type": "portmap", "capabilities": {"portMappings": true}}, ${MAIN}`);
    expect(lines(behind)).toEqual([expect.stringMatching(/error plugins\[1\]\.type$/)]);
  });

  it('reports problems of the list itself at their position', () => {
    expect(lines(list(MAIN, '"nam": "n", "cniVersion": "1.0.0"'))).toEqual([
      'x.conflist:1:1 error name',
      'x.conflist:1:2 error nam',
    ]);
    const empty = '{"name": "n", "cniVersion": "1.0.0", "plugins": []}';
    expect(lines(empty)).toEqual(['x.conflist:1:38 error plugins']);
    expect(lintSource({ name: 'x.conflist', text: empty })[0]?.problem.message).toMatch(/at least one plugin$/);
  });
});

describe('lint of a netconf', () => {
  it('prints the messages of ADD', () => {
    const text =
      '{"name": "n", "cniVersion": "1.0.0", "type": "netplug", "mtu": 5, "ipam": {"type": "netplug-ipam", "assign_ipv4": true}}';
    const { problems, warnings } = inspectNetconf(JSON.parse(text), 'network');
    const said = lintSource({ name: 'x.conf', text });
    const messages = [...problems, ...warnings].map(({ message }) => message);
    expect(said.map(({ problem }) => problem.message).sort()).toEqual(messages.sort());
  });

  it('reports the position of a JSON syntax error', () => {
    expect(lines('{"name": "x",\n "type" "netplug"}')).toEqual(['x.conflist:2:9 error ']);
    expect(lines('')).toEqual(['x.conflist:1:1 error ']);
  });

  it('names the option that needs the orchestrator', () => {
    const text = list(MAIN.replace('"ipam"', '"policy": {"type": "orch"}, "ipam"'));
    expect(lines(text)).toEqual([expect.stringMatching(/error plugins\[0\]\.policy\.type$/)]);
  });
});

describe('lint of resources', () => {
  it('reports problems of list items at their position', () => {
    const text =
      'kind: IPPoolList\napiVersion: netplug.io/v3\nitems:\n- apiVersion: netplug.io/v3\n  kind: IPPool\n  metadata: {name: a}\n  spec: {cidr: 10.0.0.1/8}\n';
    expect(lines(text, 'x.yaml')).toEqual(['x.yaml:7:10 error items[0].spec.cidr']);
  });

  const POOL = 'apiVersion: netplug.io/v3\nkind: IPPool\nmetadata: {name: a}\nspec: {cidr: 10.0.0.0/16}\n';
  const POOL_JSON =
    '{\n"apiVersion": "netplug.io/v3",\n"kind": "IPPool",\n"metadata": {"name": "a"},\n"spec": {"cidr": "10.0.0.0/16"}\n}\n';

  it.each([
    ['standard input', POOL.replace('{name: a}', '{name: a'), /^standard input:\d+:\d+ error /],
    ['standard input', POOL.replace('kind', 'knd'), /^standard input:1:1 error kind$/],
    ['standard input', POOL.replace('apiVersion', 'apiVersoin'), /^standard input:\d:1 error apiVers/],
    ['standard input', 'knd: IPPool\nmetadata: {name: a}\n', /^standard input:1:1 error apiVersion$/],
    ['pool.json', POOL_JSON.replace(/\}\n$/, ''), /^pool.json:\d+:\d+ error $/],
    ['pool.json', POOL_JSON.replaceAll('\n', '').replace(/\}$/, ''), /^pool.json:\d+:\d+ error $/],
    ['pool.json', POOL_JSON.replace('"kind"', '"knd"'), /^pool.json:1:1 error kind$/],
    ['pool.txt', POOL.replace('{name: a}', '{name: a'), /^pool.txt:\d+:\d+ error $/],
    ['pool.txt', POOL_JSON.replace('"a"}', '"a"'), /^pool.txt:\d+:\d+ error $/],
  ])('recognizes a broken resource in %s: %#', (name, text, first) => {
    const remarks = lintSource({ name, text });
    expect(lines(text, name)[0]).toMatch(first);
    expect(remarks.map(({ problem }) => problem.code)).toEqual(remarks.map(() => 'resource/invalid'));
  });

  it.each([
    '',
    '{}',
    '{"cniVersion": "1.0.0", "type": "netplug"',
    'name: pods\ntype: netplug\n',
    '- {plugins: [{type: netplug}]}',
  ])('recognizes a broken network configuration: %s', (text) => {
    expect(lintSource({ name: 'standard input', text })[0]?.problem.code).toMatch(/^netconf|^cni/);
  });
});
