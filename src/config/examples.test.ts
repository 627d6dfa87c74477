import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { decodeResource } from '../model/decode-resource.ts';
import { readyCondition } from '../model/node-readiness.ts';
import { isRecord } from '../model/read-schema.ts';
import { inspectNetconf } from './decode.ts';
import { parseJsonObject } from './parse-json.ts';

/** Documents of other kinds than resources. */
const FOREIGN = ['fleet.yaml', 'node-readiness-rule.yaml'];
const FOLDER = new URL('../../examples/', import.meta.url);

function examples(ending: string): string[] {
  return readdirSync(FOLDER).filter((name) => name.endsWith(ending));
}

function textOf(name: string): string {
  return readFileSync(new URL(name, FOLDER), 'utf8');
}

/** Returns the first plugin of a list as a runtime passes it to the plugin: with name and version of the list. */
function mainPlugin(name: string): unknown {
  const { name: network, cniVersion, plugins } = parseJsonObject(textOf(name));
  const main: unknown = Array.isArray(plugins) ? plugins[0] : undefined;
  return isRecord(main) ? { ...main, name: network, cniVersion } : undefined;
}

describe('the examples', () => {
  it.each(examples('.conflist'))(
    '%s has no problems and no warnings, and logs to the file of the default [log-file-shipped]',
    (name) => {
      const { problems, warnings, netconf } = inspectNetconf(mainPlugin(name), 'network');
      expect({ problems, warnings }).toEqual({ problems: [], warnings: [] });
      expect(netconf?.log.filePath).toBe('/var/log/netplug/cni/cni.log');
      expect(netconf?.needsOrchestrator).toEqual([]);
    },
  );

  it.each(examples('.conflist'))('%s chains host ports and traffic shaping [chain-shipped]', (name) => {
    expect(parseJsonObject(textOf(name))['plugins']).toMatchObject([
      { type: 'netplug' },
      { type: 'portmap', snat: true, capabilities: { portMappings: true } },
      { type: 'bandwidth', capabilities: { bandwidth: true } },
    ]);
  });

  it.each(examples('.yaml').filter((name) => !FOREIGN.includes(name)))('%s contains valid resources', (name) => {
    const documents = parseAllDocuments(textOf(name)).map((each) => each.toJS() as { readonly apiVersion?: string });
    // A demo has objects of Kubernetes as well.
    const own = documents.filter(({ apiVersion }) => apiVersion?.startsWith('netplug.io/') === true);
    expect(own.length).toBeGreaterThan(0);
    for (const document of own) expect(decodeResource(document)).toHaveProperty('resource');
  });

  it('node-readiness-rule.yaml asks for the condition that the agent writes, and has the taint of its page', () => {
    const { spec, ...rule } = parse(textOf('node-readiness-rule.yaml')) as {
      readonly spec: { readonly taint: { readonly key: string } };
    };
    const { type, status } = readyCondition({ calls: [], network: [], plugin: [], pending: [] });
    expect(rule).toMatchObject({ apiVersion: 'readiness.node.x-k8s.io/v1alpha1', kind: 'NodeReadinessRule' });
    expect(spec).toMatchObject({
      conditions: [{ type, requiredStatus: status }],
      enforcementMode: expect.stringMatching(/^(bootstrap-only|continuous)$/),
      nodeSelector: { matchLabels: { 'kubernetes.io/os': 'linux' } },
    });
    // The controller accepts keys with this prefix alone.
    expect(spec.taint.key).toMatch(/^readiness\.k8s\.io\/[a-z0-9-]{1,63}$/);
    const [, taints = ''] = textOf('../docs/netplug-agent.md').match(/\n(registerWithTaints:\n[^`]*)```/) ?? [];
    expect(parse(taints)).toEqual({ registerWithTaints: [spec.taint] });
  });
});
