import { describe, expect, it } from 'vitest';
import { isEndpointUrl, isHttpUrl } from './url.ts';

describe('URLs', () => {
  it.each(['http://a', 'https://a:1/x?y#z', 'HTTP://[::1]:80/'])('are %s', (url) => expect(isHttpUrl(url)).toBe(true));

  it.each(['', 'a:1', 'ftp://a', 'http://', 'http:///x', 'http://:80', 'http://a b', 'http://u:p@a', 'http://a:99999'])(
    'are not %j',
    (url) => expect(isHttpUrl(url)).toBe(false),
  );

  it('of endpoints end after host and port', () => {
    expect(isEndpointUrl('http://a:1/')).toBe(true);
    expect(isEndpointUrl('http://a:1/x')).toBe(false);
  });
});
