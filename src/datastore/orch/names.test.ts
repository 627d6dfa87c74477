import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isLabelValue } from '../../model/metadata.ts';
import type { NodeName } from '../../model/names.ts';
import { isDnsSubdomain } from '../../model/dns-name.ts';
import { bitsOf } from '../../net/address.ts';
import { cidrAround, parseCidr, sameCidr } from '../../net/cidr.ts';
import { blockObjectName, cidrOfBlockName, holderLabel, nodeLabelValue } from './names.ts';

const cidrs = fc
  .constantFrom(4 as const, 6 as const)
  .chain((family) =>
    fc
      .tuple(
        fc.bigInt({ min: 0n, max: (1n << BigInt(bitsOf(family))) - 1n }),
        fc.integer({ min: 0, max: bitsOf(family) }),
      )
      .map(([value, bits]) => cidrAround({ family, value }, bits)),
  );

describe('the name of a block', () => {
  it('is one that the API takes, and leads back to the CIDR [orch-datastore]', () => {
    fc.assert(
      fc.property(cidrs, (cidr) => {
        const name = blockObjectName(cidr);
        const back = cidrOfBlockName(name);
        expect(isDnsSubdomain(name)).toBe(true);
        expect(back !== undefined && sameCidr(back, cidr)).toBe(true);
      }),
    );
  });

  it('is readable', () => {
    expect(blockObjectName(parseCidr('10.0.0.64/26'))).toBe('10-0-0-64-26');
    expect(blockObjectName(parseCidr('fd00::40/122'))).toBe('fd00-0000-0000-0000-0000-0000-0000-0040-122');
  });

  it.each(['', 'blue', '10-0-0-65-26', '010-0-0-0-26', '10-0-0-0-33', '10-0-0-0-', '10-0-0-256-32', 'fd00-0-122'])(
    'stands for no CIDR when it is %j',
    (name) => expect(cidrOfBlockName(name)).toBeUndefined(),
  );
});

describe('labels of a block', () => {
  it('hold any node name, as it is where that is possible', () => {
    const long = 'n'.repeat(200) as NodeName;
    expect(nodeLabelValue('node-1' as NodeName)).toBe('node-1');
    for (const odd of [long, 'a/b' as NodeName, 'é' as NodeName]) {
      expect(isLabelValue(nodeLabelValue(odd))).toBe(true);
      expect(isLabelValue(holderLabel(odd).split('/')[1] ?? '')).toBe(true);
    }
    expect(nodeLabelValue(long)).not.toBe(nodeLabelValue('n'.repeat(201) as NodeName));
  });
});
