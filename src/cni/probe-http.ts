import { get as getHttp } from 'node:http';
import type { ProbeGate } from './gates.ts';

/** Asks with GET over HTTP or HTTPS and does not follow redirects: a redirect is an answer. */
export const probeHttp: ProbeGate = async (url, signal) => {
  const get = url.startsWith('https:') ? (await import('node:https')).get : getHttp;
  return new Promise((resolve, reject) => {
    const request = get(url, { signal, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    request.on('error', reject);
  });
};
