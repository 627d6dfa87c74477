import { get as getHttp } from 'node:http';
import type { ProbeGate } from './gates.ts';

/** Sends GET over HTTP or HTTPS. Does not follow redirects: a readiness gate passes with 3xx. */
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
