import { X509Certificate, createPrivateKey } from 'node:crypto';
import { expect, it } from 'vitest';
import { makeOwnCertificate } from './own-certificate.ts';

it('makes a certificate of its name that its key has signed, valid since an hour ago', () => {
  const nowMs = Date.now();
  const { key, certificate } = makeOwnCertificate('typha-1.netplug-typha', nowMs);
  const read = new X509Certificate(certificate);
  expect(read.checkHost('typha-1.netplug-typha')).toBe('typha-1.netplug-typha');
  expect(read.checkHost('typha-2.netplug-typha')).toBeUndefined();
  expect(read.checkPrivateKey(createPrivateKey(key))).toBe(true);
  expect(read.verify(read.publicKey)).toBe(true);
  expect(read.publicKey.asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
  expect(Date.parse(read.validFrom)).toBeLessThan(nowMs - 3_500_000);
  expect(Date.parse(read.validTo)).toBeGreaterThan(nowMs + 9 * 365 * 86_400_000);
  expect(certificate.length).toBeLessThan(800);
});

it('makes another key and another serial number each time', () => {
  const [one, other] = [makeOwnCertificate('a', 0), makeOwnCertificate('a', 0)];
  expect(one.key).not.toBe(other.key);
  expect(new X509Certificate(one.certificate).serialNumber).not.toBe(
    new X509Certificate(other.certificate).serialNumber,
  );
});
