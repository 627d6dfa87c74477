import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { callCtl } from '../../../../test/support/ctl.ts';
import { MemoryDatabase } from '../../../datastore/memory/memory-database.ts';
import { openMemoryStore } from '../../../datastore/memory/memory-store.ts';

let database: MemoryDatabase;
beforeEach(() => {
  database = new MemoryDatabase();
});

/** The words a shell would offer, and what it is told to do besides. */
async function offered(words: readonly string[], datastore = 'http://127.0.0.1:1'): Promise<string[]> {
  const env = { KV_ENDPOINTS: datastore };
  const openStore = () => openMemoryStore(database);
  const { status, out, err } = await callCtl(['complete', '--', ...words], { env, openStore });
  expect({ status, err }).toEqual({ status: 0, err: '' });
  return out
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t')[0] ?? '');
}

describe('completion', () => {
  beforeEach(async () => {
    const stdin = ['blue', 'black', 'green']
      .map(
        (name, index) =>
          `apiVersion: netplug.io/v3\nkind: IPPool\nmetadata: {name: ${name}}\nspec: {cidr: 10.${String(index)}.0.0/16}\n`,
      )
      .join('---\n');
    const env = { KV_ENDPOINTS: 'http://127.0.0.1:1' };
    await callCtl(['create', '-f', '-'], { env, stdin, openStore: () => openMemoryStore(database) });
  });

  it.each([
    [['app'], ['apply', ':4']],
    [
      ['ipam', 's'],
      ['show', ':4'],
    ],
    [['no'], ['node', ':4']],
    [
      ['get', 'ipp'],
      ['ippools', ':4'],
    ],
    [
      ['get', 'ippools,ipr'],
      ['ippools,ipreservations', ':4'],
    ],
    [
      ['get', 'ippools', 'b'],
      ['black', 'blue', ':4'],
    ],
    [
      ['get', 'ippools', 'blue', ''],
      ['black', 'green', ':4'],
    ],
    [
      ['get', 'ippool/b'],
      ['ippool/black', 'ippool/blue', ':4'],
    ],
    [
      ['get', 'ippools', '--sh'],
      ['--show-labels', ':4'],
    ],
    [
      ['get', '--no-h'],
      ['--no-headers', ':4'],
    ],
    [
      ['get', 'ippools', '-o', 'j'],
      ['json', 'jsonpath=', ':4'],
    ],
    [
      ['get', '-o', 'jsonp'],
      ['jsonpath=', ':6'],
    ],
    [
      ['get', '--output=y'],
      ['--output=yaml', ':4'],
    ],
    [
      ['get', '-o', 'yaml', 'ippools', 'g'],
      ['green', ':4'],
    ],
    [
      ['patch', 'ippool', 'green', '--type', 'm'],
      ['merge', ':4'],
    ],
    [
      ['label', 'ippool', 'gr'],
      ['green', ':4'],
    ],
    [['apply', '-f', ''], [':0']],
    [['lint', 'x'], [':0']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish', ':4'],
    ],
    [['get', 'nothing', ''], [':4']],
    [['nothing', ''], [':4']],
    [['get', 'ippools', '-n', ''], [':4']],
  ])('of %j offers %j', async (words, expected) => {
    expect(await offered(words)).toEqual(expected);
  });

  it('offers every command and what each is for', async () => {
    const { out } = await callCtl(['complete', '--', ''], {});
    expect(out).toContain('get\tShows resources.\n');
    expect(out).toContain('\nipam\n');
  });

  it('offers the contexts of the kubeconfig for --context, and files for --kubeconfig', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'netplugctl-'));
    try {
      const file = join(folder, 'config');
      await writeFile(file, 'contexts: [{name: prod}, {name: pre}, {name: test}]');
      expect(await offered(['get', '--kubeconfig', file, '--context', 'p'])).toEqual(['prod', 'pre', ':4']);
      expect(await offered([`--kubeconfig=${file}`, 'get', '--context=t'])).toEqual(['--context=test', ':4']);
      expect(await offered(['get', '--kubeconfig', `${file}-missing`, '--context', ''])).toEqual([':4']);
      expect(await offered(['get', '--kubeconfig', ''])).toEqual([':0']);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it('is silent where there is no datastore', async () => {
    expect(await offered(['get', 'ippools', ''], 'not a url')).toEqual([':4']);
  });
});
