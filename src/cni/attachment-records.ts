import type { AttachmentRecord } from '../model/attachment-record.ts';
import { type Attachment, handleOf } from '../model/names.ts';

/** The node's own records of its attachments, which only root can read or write. */
export interface AttachmentRecords {
  /** Writes the record of the attachment durably, replacing an earlier one. @throws cni/record-failed */
  put(record: AttachmentRecord): Promise<void>;
  /** Returns the record, or undefined when it is missing or malformed. */
  find(attachment: Attachment): Promise<AttachmentRecord | undefined>;
  /** Removes the record. Idempotent. @throws cni/record-failed */
  remove(attachment: Attachment): Promise<void>;
  /** Lists all records; `problems` names those that are malformed, a sentence each. @throws cni/record-failed */
  list(): Promise<{ readonly records: readonly AttachmentRecord[]; readonly problems: readonly string[] }>;
}

/** Returns records that are kept in memory. */
export function memoryRecords(): AttachmentRecords {
  const records = new Map<string, AttachmentRecord>();
  return {
    put: async (record) => {
      records.set(handleOf(record.attachment), record);
      return Promise.resolve();
    },
    find: async (attachment) => Promise.resolve(records.get(handleOf(attachment))),
    remove: async (attachment) => {
      records.delete(handleOf(attachment));
      return Promise.resolve();
    },
    list: async () => Promise.resolve({ records: [...records.values()], problems: [] }),
  };
}
