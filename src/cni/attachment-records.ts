import type { AttachmentRecord } from '../model/attachment-record.ts';
import { type Attachment, handleOf } from '../model/names.ts';

/** What the node itself remembers of its attachments; only root can read or write it. */
export interface AttachmentRecords {
  /** Replaces the record of the attachment; it survives a crash once this resolves. @throws cni/record-failed */
  put(record: AttachmentRecord): Promise<void>;
  /** Undefined when there is none, or none that can be understood. */
  find(attachment: Attachment): Promise<AttachmentRecord | undefined>;
  /** Removing what is not there is success. @throws cni/record-failed */
  remove(attachment: Attachment): Promise<void>;
  /** `problems` names what cannot be understood; it harms no other record. @throws cni/record-failed */
  list(): Promise<{ readonly records: readonly AttachmentRecord[]; readonly problems: readonly string[] }>;
}

/** Records that last as long as the process. */
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
