import { describe, expect, it } from 'vitest';
import { recordedChecks } from '../../../test/support/recorded-checks.ts';
import { readCheck } from './check-service.ts';

const CHECKS = recordedChecks();

function questionAbout(what: string): ReturnType<typeof readCheck> {
  return readCheck(CHECKS.get(what) ?? Buffer.alloc(0));
}

describe('a check that a real Envoy sent', () => {
  it.each([
    ['a path with a query', 'GET', '/items/1?page=2'],
    ['another method', 'DELETE', '/items/1'],
    ['a method that nothing knows', 'PROPFIND', '/items/1'],
    ['an encoded slash, and two', 'GET', '/b%2fc//d'],
    // What the proxy normalizes, it has normalized.
    ['dots', 'GET', '/admin'],
    ['encoded dots', 'GET', '/admin'],
    ['a parameter of a segment', 'GET', '/items;v=1/1'],
    ['a whole address', 'GET', '/items/1'],
    ['a WebSocket', 'GET', '/items/1'],
    ['a long path', 'GET', `/${'long/'.repeat(1000)}`],
    ['encoded bytes of UTF-8', 'GET', '/items/%C3%A9%E2%82%AC'],
    ['HTTP/2', 'GET', '/items/1'],
    ['gRPC', 'POST', '/shop.Items/List'],
  ])('asks about %s: %s %s', (what, method, target) => {
    expect(questionAbout(what)).toMatchObject({
      source: { address: '172.31.0.3', principal: '' },
      destination: { address: '172.31.0.2', port: 8080 },
      request: { method, target },
    });
  });

  it('has addresses of IPv6', () => {
    const { source, destination } = questionAbout('over IPv6');
    expect([source.address, destination.address]).toEqual(['fd00:172:31::3', 'fd00:172:31::2']);
  });

  it('has no request where a connection is asked about', () => {
    const { destination, request } = questionAbout('a connection');
    expect([destination.port, request]).toEqual([9000, undefined]);
  });
});

it('refuses bytes that are no check, and one without addresses', () => {
  expect(() => readCheck(Buffer.from('no check'))).toThrow('wire type');
  expect(() => readCheck(Buffer.alloc(0))).toThrow('a check without addresses');
});
