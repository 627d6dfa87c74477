import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { CTL_DATASTORES, type CtlDatastore } from '../support/ctl-datastores.ts';

const POOLS = ['-f', 'examples/ippools.yaml', '-f', 'examples/ipreservation.yaml'];

describe.each(CTL_DATASTORES)('netplugctl on $type', ({ start }) => {
  let datastore: CtlDatastore;
  const run: CtlDatastore['run'] = async (...args) => datastore.run(...args);
  beforeAll(async () => {
    datastore = await start();
  });
  afterAll(async () => datastore[Symbol.asyncDispose]());
  beforeEach(async () => datastore.empty());

  it('applies the examples, twice', async () => {
    const first = await run(['apply', ...POOLS]);
    expect(first).toMatchObject({ status: 0, stderr: '' });
    expect(first.stdout).toContain('IPPool "default-ipv4-pool" created\n');
    const second = await run(['apply', ...POOLS]);
    expect(second.stdout).toBe(first.stdout.replaceAll('created', 'unchanged'));
  });

  it('takes back what it shows', async () => {
    await run(['apply', ...POOLS]);
    for (const form of ['yaml', 'json']) {
      const { stdout } = await run(['get', 'ippools', '-o', form]);
      expect(parse(stdout)).toMatchObject({ kind: 'IPPoolList' });
      const again = await run(['apply', '-f', '-'], { stdin: stdout });
      expect(again.stdout).toMatch(/^(IPPool "[^"]+" unchanged\n)+$/);
    }
  });
});
