import { describe, expect, it } from 'vitest';
import { parseAddress } from '../../net/address.ts';
import { parseCidr } from '../../net/cidr.ts';
import { attribute, textAttribute, u32Attribute } from './netlink.ts';
import { addSourceRule, decodeRoutingRule } from './rule-messages.ts';

/** Numbers of the attributes of a rule. */
const [IIFNAME, PRIORITY, FWMARK, FWMASK, L3MDEV, DPORT] = [3, 6, 10, 16, 19, 24] as const;
const INVERT = 2;

function ruleOf(
  { action = 1, table = 0, flags = 0 },
  ...attributes: readonly Buffer[]
): ReturnType<typeof decodeRoutingRule> {
  const header = Buffer.from([2, 0, 0, 0, table, 0, 0, action, flags, 0, 0, 0]);
  return decodeRoutingRule(Buffer.concat([header, ...attributes]));
}

describe('routing rules', () => {
  it.each(['10.65.0.1', 'fd00::1'])('decode to the rule for the source %s that was encoded', (text) => {
    expect(decodeRoutingRule(addSourceRule(parseAddress(text), 1000).body)).toEqual({
      preference: 20_000,
      action: { table: 1000 },
      from: parseCidr(`${text}/${text.includes(':') ? '128' : '32'}`),
      to: undefined,
      incoming: undefined,
      takesUnmarked: true,
      isNarrow: false,
      isInverted: false,
      isOfVrf: false,
    });
  });

  it('tell by what they choose packets', () => {
    expect(ruleOf({ table: 52 }, u32Attribute(PRIORITY, 5270))).toMatchObject({
      preference: 5270,
      action: { table: 52 },
      from: undefined,
    });
    expect(ruleOf({}, textAttribute(IIFNAME, 'npl1'))).toMatchObject({ incoming: 'npl1' });
    expect(ruleOf({}, u32Attribute(FWMARK, 0x8_00_00), u32Attribute(FWMASK, 0xff_00_00)).takesUnmarked).toBe(false);
    expect(ruleOf({ flags: INVERT }, u32Attribute(FWMARK, 1))).toMatchObject({
      takesUnmarked: false,
      isInverted: true,
    });
    expect(ruleOf({}, attribute(DPORT, Buffer.alloc(4))).isNarrow).toBe(true);
    expect(ruleOf({}, attribute(L3MDEV, Buffer.from([1]))).isOfVrf).toBe(true);
    expect(ruleOf({ action: 8 }).action).toEqual({ refuses: 'prohibit' });
    expect(ruleOf({ action: 2 }).action).toBeUndefined();
  });
});
