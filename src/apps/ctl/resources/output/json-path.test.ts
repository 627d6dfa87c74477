import { describe, expect, it } from 'vitest';
import { parsePath, parseTemplate } from './json-path-parser.ts';
import { renderTemplate, valuesAt } from './json-path.ts';

const LIST = {
  kind: 'List',
  items: [
    {
      kind: 'IPPool',
      metadata: { name: 'blue', labels: { 'example.com/rack': 'r1', tier: "o'clock" } },
      spec: { cidr: '10.0.0.0/16', blockSize: 26, disabled: false, allowedUses: ['Workload', 'Tunnel'] },
    },
    {
      kind: 'IPPool',
      metadata: { name: 'green', labels: { 'example.com/rack': 'r2' } },
      spec: { cidr: '10.1.0.0/16', blockSize: 28, disabled: true, allowedUses: ['Workload'] },
    },
    { kind: 'Node', metadata: { name: 'n1' }, spec: { bgp: { asNumber: 64512 } } },
  ],
};

/** In the dialect of kubectl. */
const TEMPLATES: readonly [template: string, text: string][] = [
  ['{.kind}', 'List'],
  ['.kind', 'List'],
  ['{$.kind}', 'List'],
  ['{@.kind}', 'List'],
  ['{.items[*].metadata.name}', 'blue green n1'],
  ['{.items[0].metadata.name}', 'blue'],
  ['{.items[-1].metadata.name}', 'n1'],
  ['{.items[-1:].metadata.name}', 'n1'],
  ['{.items[0:2].metadata.name}', 'blue green'],
  ['{.items[::2].metadata.name}', 'blue n1'],
  ['{.items[0,2].metadata.name}', 'blue n1'],
  ["{.items[*]['kind','spec.x']}", 'IPPool IPPool Node'],
  ["{.items[0]['metadata']['name']}", 'blue'],
  ['{.items[0].spec.allowedUses}', '["Workload","Tunnel"]'],
  ['{.items[0].spec.allowedUses[*]}', 'Workload Tunnel'],
  ['{.items[0].metadata.labels.example\\.com/rack}', 'r1'],
  ['{.items[?(@.kind=="IPPool")].metadata.name}', 'blue green'],
  ["{.items[?(@.kind=='Node')].metadata.name}", 'n1'],
  ['{.items[?(@.kind != "Node")].metadata.name}', 'blue green'],
  ['{.items[?(@.spec.blockSize>26)].metadata.name}', 'green'],
  ['{.items[?(@.spec.blockSize<=26)].metadata.name}', 'blue'],
  ['{.items[?(@.spec.disabled==true)].metadata.name}', 'green'],
  ['{.items[?(@.spec.bgp)].metadata.name}', 'n1'],
  ['{..asNumber}', '64512'],
  ['{.items[*].spec.blockSize}', '26 28'],
  ['{.items[*].spec.nothing}', ''],
  ['{.nothing.at.all[0]}', ''],
  ['{range .items[*]}{.metadata.name}{"\\t"}{.spec.cidr}{"\\n"}{end}', 'blue\t10.0.0.0/16\ngreen\t10.1.0.0/16\nn1\t\n'],
  ['{range .items[0:2]}[{range .spec.allowedUses[*]}{@},{end}]{end}', '[Workload,Tunnel,][Workload,]'],
  ['{range .items[0:1]}{$.kind}/{.kind}{end}', 'List/IPPool'],
  ['kind is {.kind}.', 'kind is List.'],
  ['{ .kind }', 'List'],
];

const MISTAKES: readonly [template: string, message: string][] = [
  ['{.items[*].metadata.name', '"}" is missing, at character 25'],
  ['{range .items[*]}{.kind}', '{end} is missing, at character 25'],
  ['{.kind}{end}', 'this {end} ends no {range}, at character 13'],
  ['{.items[}', 'allowed here is a number, "*", a quoted name or "?(…)", at character 9'],
  ['{.items[?(@.kind==)]}', 'allowed here is a path such as @.name, a number or a quoted text, at character 19'],
  ['{.items[?(@.kind=="a"]}', '")" is missing, at character 22'],
  ['{.items[::0]}', 'the step of a slice must be at least 1'],
  ['{.a b}', '"}" is missing, at character 5'],
  ['.a b', 'the path does not go on like this, at character 4'],
];

describe('a JSONPath template', () => {
  it.each(TEMPLATES)('%s', (template, text) => {
    expect(renderTemplate(parseTemplate(template), LIST)).toBe(text);
  });

  it.each(MISTAKES)('%s is refused with the character', (template, message) => {
    expect(() => parseTemplate(template)).toThrow(message);
  });
});

describe('a path by itself', () => {
  it.each(['.items[0].kind', 'items[0].kind', '{.items[0].kind}', '$.items[0].kind'])('%s', (text) => {
    expect(valuesAt(parsePath(text), LIST)).toEqual(['IPPool']);
  });
});
