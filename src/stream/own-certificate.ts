import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { AsnConvert, OctetString } from '@peculiar/asn1-schema';
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  BasicConstraints,
  Certificate,
  Extension,
  Extensions,
  GeneralName,
  id_ce_basicConstraints,
  id_ce_subjectAltName,
  Name,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
} from '@peculiar/asn1-x509';

/** A key and the certificate of it that it has signed itself, in PEM. */
export interface OwnCertificate {
  readonly key: string;
  readonly certificate: string;
}

const COMMON_NAME = '2.5.4.3';
const ECDSA_WITH_SHA256 = '1.2.840.10045.4.3.2';
const HOUR_MS = 3_600_000;
/** Longer than any process runs: who trusts the certificate has read it from the Lease of a server that is alive. */
const VALID_MS = 10 * 365 * 24 * HOUR_MS;

/** Makes a P-256 key and a certificate for the name. It is valid since an hour before, because clocks differ. */
export function makeOwnCertificate(name: string, nowMs: number): OwnCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const algorithm = new AlgorithmIdentifier({ algorithm: ECDSA_WITH_SHA256 });
  const serial = randomBytes(16);
  // A positive number without leading zeros.
  serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f);
  const tbsCertificate = new TBSCertificate({
    version: Version.v3,
    serialNumber: bufferOf(serial),
    signature: algorithm,
    issuer: nameOf(name),
    subject: nameOf(name),
    validity: new Validity({ notBefore: new Date(nowMs - HOUR_MS), notAfter: new Date(nowMs + VALID_MS) }),
    subjectPublicKeyInfo: AsnConvert.parse(publicKey.export({ type: 'spki', format: 'der' }), SubjectPublicKeyInfo),
    extensions: new Extensions([
      extension(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: 0 }), true),
      extension(id_ce_subjectAltName, new SubjectAlternativeName([new GeneralName({ dNSName: name })]), false),
    ]),
  });
  const signature = sign('sha256', Buffer.from(AsnConvert.serialize(tbsCertificate)), privateKey);
  const whole = new Certificate({ tbsCertificate, signatureAlgorithm: algorithm, signatureValue: bufferOf(signature) });
  const base64 = Buffer.from(AsnConvert.serialize(whole)).toString('base64');
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    certificate: `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  };
}

function nameOf(text: string): Name {
  const value = new AttributeValue({ utf8String: text });
  return new Name([new RelativeDistinguishedName([new AttributeTypeAndValue({ type: COMMON_NAME, value })])]);
}

function extension(extnID: string, value: object, critical: boolean): Extension {
  return new Extension({ extnID, critical, extnValue: new OctetString(AsnConvert.serialize(value)) });
}

/** Returns the bytes as a buffer of their own: Node's may be part of a larger one. */
function bufferOf(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}
