/**
 * The server closed a TLS connection before its HTTP/2 preface. With TLS 1.3 it verifies the client certificate after the
 * client has finished the handshake, and the alert with the reason may get lost.
 */
export class EndedAfterHandshake extends Error {
  override readonly name = 'EndedAfterHandshake';

  constructor(cause: Error) {
    super(`the server ended the connection right after the TLS handshake (${cause.message})`, { cause });
  }
}
