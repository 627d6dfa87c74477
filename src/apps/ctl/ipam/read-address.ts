import { NetplugError } from '../../../base/errors.ts';
import { type Address, tryParseAddress } from '../../../net/address.ts';

/** The address an option names. @throws cli/usage */
export function addressIn(text: string): Address {
  const address = tryParseAddress(text);
  if (address !== undefined) return address;
  throw new NetplugError('cli/usage', `Cannot read "${text}" as an IP address`, {
    hint: 'Write one address, such as --ip 10.0.0.7',
  });
}
