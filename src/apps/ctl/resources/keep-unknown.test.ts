import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { mergeKey } from '../../../model/schema-shape.ts';
import { keepUnknown } from './keep-unknown.ts';

const schema = v.looseObject({
  bgp: v.optional(v.looseObject({ asNumber: v.number() })),
  ports: v.optional(v.pipe(v.array(v.looseObject({ name: v.string(), port: v.number() })), mergeKey('name'))),
  rules: v.optional(v.array(v.looseObject({ action: v.string(), nets: v.optional(v.array(v.string())) }))),
});

describe('what a newer release stored', () => {
  it('stays beside what a file says, at every depth', () => {
    const stored = { later: 1, bgp: { asNumber: 1, later: 2 }, gone: undefined };
    expect(keepUnknown({ bgp: { asNumber: 5 } }, { stored, schema })).toEqual({
      later: 1,
      bgp: { asNumber: 5, later: 2 },
    });
  });

  it('goes with a declared field that the file leaves out', () => {
    expect(keepUnknown({}, { stored: { bgp: { asNumber: 1, later: 2 } }, schema })).toEqual({});
  });

  it('stays with the item of a list that has the same merge key', () => {
    const stored = {
      ports: [
        { name: 'http', port: 80, later: 1 },
        { name: 'dns', port: 53, later: 2 },
      ],
    };
    const wanted = {
      ports: [
        { name: 'dns', port: 5353 },
        { name: 'ssh', port: 22 },
      ],
    };
    expect(keepUnknown(wanted, { stored, schema })).toEqual({
      ports: [
        { name: 'dns', port: 5353, later: 2 },
        { name: 'ssh', port: 22 },
      ],
    });
  });

  it('stays with the item that says the same, where a list has no merge key', () => {
    const stored = {
      rules: [
        { action: 'Allow', later: 1 },
        { action: 'Deny', nets: ['10.0.0.0/8'], later: 2 },
      ],
    };
    const wanted = { rules: [{ action: 'Deny', nets: ['10.0.0.0/8'] }, { action: 'Deny' }] };
    expect(keepUnknown(wanted, { stored, schema })).toEqual({
      rules: [{ action: 'Deny', nets: ['10.0.0.0/8'], later: 2 }, { action: 'Deny' }],
    });
  });
});
