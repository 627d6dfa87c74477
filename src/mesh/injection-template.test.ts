import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { injectionTemplate, withTemplate } from './injection-template.ts';

const OPTIONS = { mesh: '1.28.1-distroless', image: 'registry.test/netplug-sidecar:v3.27.0', pullSecrets: [] };
const CONFIG = `# defaultTemplates defines the sets of templates
defaultTemplates: [sidecar]
policy: enabled
templates:
  sidecar: |
    {{- $x := "templates:" }}
    spec:
      containers:

      - name: istio-proxy   \n  gateway: |
    spec: {}
injectedAnnotations: {}
`;

describe('the configuration of the injector', () => {
  it.each([
    ['gets the template', CONFIG],
    ['gets it in place of an earlier one', withTemplate(CONFIG, 'spec: {}\n\nmetadata: {}\n')],
    ['keeps it', withTemplate(CONFIG, injectionTemplate(OPTIONS))],
  ])('%s, and every other byte', (_, before) => {
    const template = injectionTemplate(OPTIONS);
    const after = withTemplate(before, template);
    const { templates } = parse(after) as { readonly templates: Readonly<Record<string, string>> };
    expect(templates['netplug']).toBe(template);
    const block = template.split('\n').map((line) => (line === '' ? '' : `    ${line}`));
    expect(after.replace(`  netplug: |\n${block.join('\n')}`, '')).toBe(CONFIG);
  });

  it.each([
    ['it is no YAML', 'templates: ['],
    ['it has no templates by name', 'policy: enabled\n'],
    ['it has no templates by name', 'templates: []\n'],
    ['its templates are not written one below the other', 'templates: {sidecar: "spec: {}"}\n'],
  ])('is refused when %s', (why, config) => {
    expect(() => withTemplate(config, injectionTemplate(OPTIONS))).toThrow(why);
  });
});

describe('the template', () => {
  it('names nothing that an earlier version of the mesh does not have', () => {
    expect(injectionTemplate(OPTIONS)).toContain('.NativeSidecars');
    expect(injectionTemplate({ ...OPTIONS, mesh: '1.26.8' })).not.toContain('.NativeSidecars');
  });

  it.each(['1.25.5', 'unknown', ''])('is refused for version "%s"', (mesh) => {
    expect(() => injectionTemplate({ ...OPTIONS, mesh })).toThrow(/of version/);
  });

  it('names the secrets by which the agents pull', () => {
    expect(injectionTemplate({ ...OPTIONS, pullSecrets: ['123'] })).toContain('  imagePullSecrets:\n  - name: "123"\n');
  });
});
