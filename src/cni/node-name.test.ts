import { describe, expect, it } from 'vitest';
import { possibleNodeNames, resolveNodeName } from './node-name.ts';

describe('the name of the node', () => {
  it('is the host name unless the option is set', () => {
    expect(resolveNodeName({ configured: undefined, hostname: 'host', registered: undefined })).toBe('host');
    expect(resolveNodeName({ configured: 'node', hostname: 'host', registered: undefined })).toBe('node');
    expect(resolveNodeName({ configured: 'node', hostname: 'host', registered: 'node' })).toBe('node');
  });

  it('is refused when it differs from the registered name, with both names in the error [err-nodename]', () => {
    expect(() => resolveNodeName({ configured: undefined, hostname: 'host', registered: 'node' })).toThrow(
      'the host name is "host", but the node agent registered it as "node"',
    );
    expect(() => resolveNodeName({ configured: 'other', hostname: 'host', registered: 'node' })).toThrow(
      'option nodename is "other", but the node agent registered it as "node"',
    );
  });

  it('is not asked to be the wrong one on a machine made from an image', () => {
    const refuse = (): unknown => resolveNodeName({ configured: 'b', hostname: 'b', registered: 'a' });
    expect(refuse).toThrow(
      expect.objectContaining({
        hint: expect.stringContaining('If this machine was made from an image of "a", start netplug-agent') as string,
      }),
    );
  });

  it('is ambiguous for cleanup, which uses every possible name', () => {
    expect(possibleNodeNames({ configured: undefined, hostname: 'host', registered: 'node' })).toEqual([
      'host',
      'node',
    ]);
  });
});
