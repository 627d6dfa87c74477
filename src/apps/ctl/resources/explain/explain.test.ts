import { describe, expect, it } from 'vitest';
import { callCtl } from '../../../../../test/support/ctl.ts';
import { KIND_NAMES } from '../../../../model/kinds.ts';

describe('explain', () => {
  it('writes what is recorded', async () => {
    const calls = [['ippool'], ['ippool.spec.allowedUses'], ['bgpconfig.spec.communities[0].value'], ['networkset']];
    const texts: string[] = [];
    for (const words of calls) {
      const { status, out } = await callCtl(['explain', ...words], {});
      expect(status).toBe(0);
      texts.push(`$ netplugctl explain ${words.join(' ')}\n${out}`);
    }
    await expect(texts.join('\n')).toMatchFileSnapshot('../../../../../test/golden/ctl/explain.txt');
  });

  it.each(KIND_NAMES)('knows every field of %s', async (kind) => {
    const { status, out } = await callCtl(['explain', kind, '--recursive'], {});
    expect({ status, out }).toMatchObject({ status: 0, out: expect.stringContaining('FIELDS of spec') });
    expect(out).not.toMatch(/undefined|\[object/);
  });

  it('knows a field that is nearly right', async () => {
    expect(await callCtl(['explain', 'ippool.spec.cider'], {})).toMatchObject({
      status: 64,
      err: expect.stringContaining('did you mean "cidr"?'),
    });
  });
});
