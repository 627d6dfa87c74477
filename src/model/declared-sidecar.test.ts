import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { type DeclaredContainer, declaredSidecar, isHanded, MESH_ANNOTATIONS, SIDECAR } from './declared-sidecar.ts';

const image = 'registry.test:5000/netplug-sidecar:v3.27.0@sha256:0123';
const INIT = { name: 'istio-init', args: ['istio-iptables', '-p', '15001', '-b', '*', '-d', '15090,15021,15020'] };
const sidecar = (annotations: Readonly<Record<string, string>>, args = INIT.args) =>
  declaredSidecar(
    [
      { name: 'netplug-sidecar', image },
      { name: 'istio-init', args },
    ],
    annotations,
  );

it('a pod without the container declares no sidecar', () => {
  expect(declaredSidecar([{ name: 'app' }, INIT], {})).toBeUndefined();
});

it.each([
  [image, 'v3.27.0'],
  ['registry.test:5000/netplug-sidecar', ''],
  ['netplug.io/netplug-sidecar@sha256:01', ''],
])('the release of image %s is "%s"', (named, release) => {
  expect(declaredSidecar([{ name: 'netplug-sidecar', image: named }], {})?.release).toBe(release);
});

describe('the proxy is handed', () => {
  const { excludedPorts, includedPorts, interception, excludedInterfaces } = MESH_ANNOTATIONS;
  it.each<[string, Readonly<Record<string, string>>, string[], boolean]>([
    ['every port', {}, INIT.args, true],
    ['not a port that the pod excludes', { [excludedPorts]: '22, 8080' }, INIT.args, false],
    ['not a port that the mesh excludes', {}, ['-d', '8080'], false],
    ['not a port that the mesh excludes in one word', {}, ['-d=15090,8080'], false],
    ['a port that the pod includes', { [includedPorts]: '8080,9000' }, INIT.args, true],
    ['not a port that the pod does not include', { [includedPorts]: '9000' }, INIT.args, false],
    ['not a port that only one of both includes', { [includedPorts]: '8080' }, ['-b', '9000'], false],
    ['nothing when the pod includes nothing', { [includedPorts]: '' }, INIT.args, false],
    ['nothing without redirection', { [interception]: 'NONE' }, INIT.args, false],
    ['nothing with a mode that is not known', { [interception]: 'redirect' }, INIT.args, false],
    ['nothing when a list cannot be read', { [excludedPorts]: '80-90' }, INIT.args, false],
    ['nothing when an interface is left out', { [excludedInterfaces]: 'eth0' }, INIT.args, false],
    ['nothing when the mesh leaves out an interface', {}, ['-c', 'eth0'], false],
    ['what TPROXY redirects', { [interception]: 'TPROXY' }, INIT.args, true],
  ])('%s', (_, annotations, args, isExpected) => {
    const declared = sidecar(annotations, args);
    expect(declared && isHanded(declared, 8080)).toBe(isExpected);
  });

  it.each([15_006, 15_020, 15_021, 15_090])('never the port %i of the mesh', (port) => {
    const declared = sidecar({}, []);
    expect(declared && isHanded(declared, port)).toBe(false);
  });
});

describe('a pod that a real mesh has rendered', () => {
  interface RenderedPod {
    readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
    readonly spec: {
      readonly containers: readonly DeclaredContainer[];
      readonly initContainers?: readonly DeclaredContainer[];
    };
  }
  // The soak compares them with what the webhook of the mesh makes: test/e2e/mesh.test.ts.
  const rendered = JSON.parse(
    readFileSync(new URL('../../test/golden/istio-1.31/pods.json', import.meta.url), 'utf8'),
  ) as readonly RenderedPod[];
  const containersOf = (name: string): readonly DeclaredContainer[] => {
    const { containers = [], initContainers = [] } =
      rendered.find(({ metadata }) => metadata.name === name)?.spec ?? {};
    return [...initContainers, ...containers];
  };
  const declaredBy = (name: string) =>
    declaredSidecar(
      containersOf(name),
      rendered.find(({ metadata }) => metadata.name === name)?.metadata.annotations ?? {},
    );

  it.each(['native', 'plain'])('declares the sidecar, and hands every port to its proxy: %s', (name) => {
    const declared = declaredBy(name);
    expect(declared).toEqual({ release: 'v3.27.0', isRedirected: true, excludedPorts: [15_020, 15_021, 15_090] });
    expect(declared === undefined ? undefined : [80, 8080, 9000].map((port) => isHanded(declared, port))).toEqual([
      true,
      true,
      true,
    ]);
  });

  it('hands over what annotations include and do not exclude', () => {
    const declared = declaredBy('excluded');
    expect(declared).toMatchObject({ isRedirected: true, includedPorts: [8080, 8081] });
    expect(declared === undefined ? undefined : [8080, 8081, 9000, 80].map((port) => isHanded(declared, port))).toEqual(
      [true, false, false, false],
    );
  });

  it('declares none without the template of netplug, and outside of the mesh', () => {
    expect([declaredBy('mesh-only'), declaredBy('outside')]).toEqual([undefined, undefined]);
    expect(declaredBy('alone')).toMatchObject({ release: 'v3.27.0' });
  });

  it.each(['native', 'plain', 'alone'])(
    'gives the sidecar no volume but that of the account, and no port: %s',
    (name) => {
      const container: DeclaredContainer & { readonly volumeMounts?: readonly { readonly mountPath: string }[] } =
        containersOf(name).find((each) => each.name === SIDECAR) ?? {};
      expect(container).not.toHaveProperty('ports');
      expect((container.volumeMounts ?? []).map(({ mountPath }) => mountPath)).toEqual([
        '/var/run/secrets/kubernetes.io/serviceaccount',
      ]);
      expect(container).toMatchObject({
        securityContext: {
          allowPrivilegeEscalation: false,
          capabilities: { drop: ['ALL'] },
          runAsNonRoot: true,
          seccompProfile: { type: 'RuntimeDefault' },
        },
      });
    },
  );
});
