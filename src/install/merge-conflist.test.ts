import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sha256Of } from '../base/sha256.ts';
import { checkConflist } from './check-conflist.ts';
import { entryDigests, inspectConflist, mergeConflist } from './merge-conflist.ts';
import type { RecordedFile } from './record.ts';

type Entry = Readonly<Record<string, unknown>>;

const NETPLUG: Entry = { type: 'netplug', kv_endpoints: 'http://127.0.0.1:2379', ipam: { type: 'netplug-ipam' } };
const PORTMAP: Entry = { type: 'portmap', snat: true, capabilities: { portMappings: true } };
const TUNING: Entry = { type: 'tuning', sysctl: { 'net.core.somaxconn': '512' } };
const OLD_TUNING: Entry = { ...TUNING, sysctl: { 'net.core.somaxconn': '128' } };
const MESH: Entry = { type: 'mesh-cni', kubernetes: { kubeconfig: '/etc/cni/net.d/mesh-kubeconfig' } };
const OTHER: Entry = { type: 'other', name: 'x' };

const listOf = (plugins: readonly unknown[], more: object = {}): string =>
  JSON.stringify({ cniVersion: '1.0.0', name: 'net', ...more, plugins });
const record = (...lists: readonly string[]): readonly RecordedFile[] =>
  lists.map((list) => ({
    kind: 'conflist',
    path: '/etc/cni/net.d/10-netplug.conflist',
    sha256: sha256Of(list),
    entries: [...entryDigests(list)],
  }));
const byOlderRelease = (list: string): readonly RecordedFile[] =>
  record(list).map(({ kind, path, sha256 }) => ({ kind, path, sha256 }));
const OWN = listOf([NETPLUG, PORTMAP]);

describe('the conflist to install over another one', () => {
  it.each<
    [
      string,
      { installed: readonly unknown[]; own?: string; known?: readonly RecordedFile[]; plugins: readonly unknown[] },
    ]
  >([
    [
      'keeps an entry that a program has added',
      { installed: [NETPLUG, PORTMAP, MESH], plugins: [NETPLUG, PORTMAP, MESH] },
    ],
    ['keeps it between entries of netplug', { installed: [NETPLUG, MESH, PORTMAP], plugins: [NETPLUG, MESH, PORTMAP] }],
    [
      'puts it behind netplug, which must come first',
      { installed: [MESH, NETPLUG, PORTMAP], plugins: [NETPLUG, PORTMAP, MESH] },
    ],
    [
      'keeps several in their order',
      { installed: [OTHER, NETPLUG, MESH, PORTMAP], plugins: [NETPLUG, PORTMAP, OTHER, MESH] },
    ],
    [
      'repairs an entry that was changed',
      { installed: [{ ...NETPLUG, mtu: 9000 }, PORTMAP, MESH], plugins: [NETPLUG, PORTMAP, MESH] },
    ],
    ['adds an entry that was removed', { installed: [NETPLUG, MESH], plugins: [NETPLUG, PORTMAP, MESH] }],
    [
      'removes a second copy',
      { installed: [NETPLUG, PORTMAP, PORTMAP, NETPLUG, MESH], plugins: [NETPLUG, PORTMAP, MESH] },
    ],
    [
      'removes a supported plugin that is switched off',
      { own: listOf([NETPLUG]), installed: [NETPLUG, PORTMAP, MESH], plugins: [NETPLUG, MESH] },
    ],
    [
      'replaces the entry of an earlier release',
      {
        own: listOf([NETPLUG, TUNING]),
        known: record(listOf([NETPLUG, OLD_TUNING])),
        installed: [NETPLUG, OLD_TUNING, MESH],
        plugins: [NETPLUG, TUNING, MESH],
      },
    ],
    [
      'removes a further plugin that netplug has no longer',
      {
        known: record(listOf([NETPLUG, PORTMAP, TUNING])),
        installed: [NETPLUG, PORTMAP, TUNING, MESH],
        plugins: [NETPLUG, PORTMAP, MESH],
      },
    ],
    [
      'removes what an earlier release wrote without a note of the entries',
      {
        known: byOlderRelease(listOf([NETPLUG, PORTMAP, TUNING])),
        installed: [NETPLUG, PORTMAP, TUNING],
        plugins: [NETPLUG, PORTMAP],
      },
    ],
    [
      'repairs a further plugin that was changed',
      {
        own: listOf([NETPLUG, TUNING]),
        known: record(listOf([NETPLUG, TUNING])),
        installed: [NETPLUG, OLD_TUNING, MESH],
        plugins: [NETPLUG, TUNING, MESH],
      },
    ],
    [
      'keeps a plugin of a program that netplug now has as well',
      {
        own: listOf([NETPLUG, TUNING]),
        known: record(listOf([NETPLUG])),
        installed: [NETPLUG, OLD_TUNING],
        plugins: [NETPLUG, TUNING, OLD_TUNING],
      },
    ],
    [
      'leaves out what no runtime can call',
      {
        installed: [
          NETPLUG,
          PORTMAP,
          {},
          'x',
          { type: '../x' },
          { type: '' },
          { ...MESH, capabilities: ['ips'] },
          { ...MESH, capabilities: { ips: 'yes' } },
        ],
        plugins: [NETPLUG, PORTMAP],
      },
    ],
    ['keeps nothing of a list without netplug', { installed: [MESH, PORTMAP], plugins: [NETPLUG, PORTMAP] }],
  ])('%s', (_, { installed, own = OWN, known = record(own), plugins }) => {
    const { text } = mergeConflist(own, listOf(installed), { record: known });
    expect(JSON.parse(text)).toMatchObject({ plugins });
  });

  it('is what netplug renders, to the letter, where nothing was added, and over a file in pieces', () => {
    const spelt = `${JSON.stringify(JSON.parse(OWN), undefined, 4)}\n`;
    for (const installed of [undefined, '', OWN.slice(0, 40), '[]', listOf([NETPLUG]), spelt])
      expect(mergeConflist(OWN, installed, { record: record(OWN) }).text).toBe(OWN);
    expect(mergeConflist(OWN, spelt, { record: [] }).isInstalled).toBe(true);
  });

  it('has the keys of the list as netplug renders them, and those of other programs', () => {
    const installed = listOf([NETPLUG, PORTMAP], {
      name: 'mine',
      loadOnlyInlinedPlugins: true,
      'mesh.example/version': '1',
    });
    const { text, isInstalled } = mergeConflist(OWN, installed, { record: record(OWN) });
    expect(JSON.parse(text)).toEqual({ ...JSON.parse(OWN), 'mesh.example/version': '1' });
    expect(isInstalled).toBe(false);
  });

  it('has nothing of the types that are left out', () => {
    const installed = listOf([NETPLUG, MESH, PORTMAP, OTHER]);
    const { text, isInstalled } = mergeConflist(OWN, installed, { record: record(OWN), leftOut: ['mesh-cni'] });
    expect(JSON.parse(text)).toMatchObject({ plugins: [NETPLUG, PORTMAP, OTHER] });
    expect(isInstalled).toBe(false);
  });

  it('keeps the flags that an administrator has set, unless netplug renders them or no runtime can read them', () => {
    const set = { disableGC: true, disableCheck: 'true' };
    const { text, isInstalled } = mergeConflist(OWN, listOf([NETPLUG, PORTMAP], set), { record: record(OWN) });
    expect(JSON.parse(text)).toEqual({ ...JSON.parse(OWN), ...set });
    expect(isInstalled).toBe(true);
    const rendered = listOf([NETPLUG, PORTMAP], { disableGC: false });
    const broken = listOf([NETPLUG, PORTMAP], { disableGC: true, disableCheck: 'yes' });
    expect(mergeConflist(rendered, broken, { record: record(rendered) }).text).toBe(rendered);
  });

  const own = fc.shuffledSubarray([PORTMAP, TUNING]).map((chained) => [NETPLUG, ...chained]);
  const foreign = fc.array(
    fc.record({
      type: fc.constantFrom('mesh-cni', 'other', 'sbr'),
      at: fc.nat(9),
      more: fc.dictionary(fc.string(), fc.json()),
    }),
    { maxLength: 4 },
  );

  it('has the entries of netplug as rendered and all others in their order, and needs no second change', () => {
    fc.assert(
      fc.property(own, own, foreign, fc.nat(6), (before, after, added, seed) => {
        const [first, rendered] = [listOf(before), listOf(after)];
        const installed: Entry[] = [...before];
        for (const { at, type, more } of added) installed.splice(at % (installed.length + 1), 0, { ...more, type });
        // Another program removes an entry of netplug besides.
        const damaged = installed.filter((_, index) => index !== seed || installed[index]?.['type'] === 'netplug');
        const others = damaged.filter((entry) => !before.includes(entry));
        const merged = mergeConflist(rendered, listOf(damaged), { record: record(first) });
        const { plugins } = JSON.parse(merged.text) as { plugins: readonly Entry[] };
        const isOwn = (entry: Entry): boolean => ['netplug', 'portmap', 'tuning'].includes(String(entry['type']));
        expect(plugins.filter(isOwn)).toEqual(after);
        expect(plugins.filter((entry) => !isOwn(entry))).toEqual(JSON.parse(JSON.stringify(others)));
        expect(plugins[0]).toEqual(NETPLUG);
        expect(merged.others).toEqual(others.map(({ type }) => type));
        expect(() => checkConflist(merged.text, 'the list')).not.toThrow();
        const again = mergeConflist(rendered, merged.text, { record: record(first, rendered) });
        expect(again).toEqual({ ...merged, isInstalled: true });
      }),
    );
  });
});

describe('an installed conflist', () => {
  it.each<[string, string, boolean, readonly string[]]>([
    ['as recorded', OWN, true, []],
    ['with an entry of another program', listOf([NETPLUG, MESH, PORTMAP]), true, ['mesh-cni']],
    ['in another spelling', JSON.stringify({ plugins: [{ ...PORTMAP }, { ...NETPLUG, type: 'netplug' }] }), true, []],
    ['with a changed entry of netplug', listOf([{ ...NETPLUG, mtu: 9000 }, PORTMAP, MESH]), false, ['mesh-cni']],
    ['without netplug', listOf([MESH]), false, ['mesh-cni']],
    ['in pieces', OWN.slice(0, 40), false, []],
  ])('%s is told from one that was changed', (_, installed, isUnchanged, others) => {
    expect(inspectConflist(installed, record(OWN))).toEqual({ isUnchanged, others });
  });
});
