// Sends one request after the other on one connection, and prints for each when it was answered (nanoseconds of the monotonic clock),
// the status, and how long it took (milliseconds). Arguments: address, port, path, and how often, 0 for until it is killed.
import { Agent, get } from 'node:http';

const [host = '', port = '', path = '/', times = '0'] = process.argv.slice(2);
const most = times === '0' ? Infinity : Number(times);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

for (let count = 0; count < most; count += 1) {
  const before = process.hrtime.bigint();
  const status = await new Promise<string>((resolve) => {
    const request = get({ agent, host, port, path, timeout: 2000 }, (response) => {
      response.resume().on('end', () => resolve(String(response.statusCode)));
    });
    request.on('timeout', () => request.destroy()).on('error', () => resolve('none'));
  });
  const after = process.hrtime.bigint();
  process.stdout.write(`${String(after)} ${status} ${String(Number(after - before) / 1e6)}\n`);
}
agent.destroy();
