import { describe, expect, it } from 'vitest';
import { problemLine } from '../base/problem.ts';
import { decodeResource } from './decode-resource.ts';
import { API_VERSION } from './resource.ts';

const configuration = (spec: object): object => ({
  apiVersion: API_VERSION,
  kind: 'BGPConfiguration',
  metadata: { name: 'default' },
  spec,
});

function problemsOf(raw: unknown): string[] {
  const decoded = decodeResource(raw);
  return 'problems' in decoded ? decoded.problems.map(problemLine) : [];
}

describe('a BGP configuration', () => {
  it('may have no field, or every field', () => {
    const whole = {
      nodeToNodeMeshEnabled: false,
      asNumber: 4_200_000_000,
      listenPort: 1790,
      logSeverityScreen: 'Debug',
      communities: [
        { name: 'no-export', value: '65535:65281' },
        { name: 'large', value: '64512:1:2' },
      ],
      prefixAdvertisements: [{ cidr: '10.0.0.0/16', communities: ['large', '64512:7'] }],
      nodeMeshPassword: { secretKeyRef: { name: 'bgp', key: 'mesh' } },
      nodeMeshMaxRestartTime: 240,
    };
    for (const spec of [{}, whole]) {
      expect(decodeResource(configuration(spec))).toEqual({ resource: configuration(spec) });
    }
  });

  it.each([
    [{ listenPort: 0 }, 'spec.listenPort: found 0'],
    [{ asNumber: 0 }, 'spec.asNumber: found 0'],
    [{ communities: [{ name: 'a', value: '64512' }] }, 'spec.communities[0].value'],
    [{ prefixAdvertisements: [{ cidr: '10.0.0.1/16', communities: [] }] }, 'here "10.0.0.0/16"'],
    [{ nodeMeshMaxRestartTime: 4096 }, 'a whole number of seconds from 1 to 4095'],
    [{ logSeverityScreen: 'info' }, 'did you mean "Info"'],
  ])('is refused with %j', (spec, text) => {
    expect(problemsOf(configuration(spec)).join('\n')).toContain(text);
  });
});
