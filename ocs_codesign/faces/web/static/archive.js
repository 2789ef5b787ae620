"use strict";
// Zip archives from anywhere: a bundle as one file, the arrays of a schedule. Nothing is inflated
// before it is asked for, none of it beyond the size that the archive declares, and checksums are
// compared. Errors are sentences without a stop.
explorer.archive = (() => {
  const MOST_ARCHIVE = 512 * 2 ** 20;
  const MOST_ENTRY = 64 * 2 ** 20;
  const MOST_CONTENT = 1024 * 2 ** 20;
  const MOST_ENTRIES = 20000;
  const MOST_DIRECTORY = 16 * 2 ** 20;
  const MOST_INFLATION = 1040; // deflate cannot pack more than 1032 bytes into one
  const [END, ENTRY, LOCAL] = [0x06054b50, 0x02014b50, 0x04034b50];
  const [STORED, DEFLATED] = [0, 8];
  const [END_BYTES, ENTRY_BYTES, LOCAL_BYTES, MOST_COMMENT] = [22, 46, 30, 0xffff];
  const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
    let rest = byte;
    for (let bit = 0; bit < 8; bit += 1) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
    return rest;
  });

  /** The files of a zip by name: each has a name and a size, and text() and arrayBuffer() like a file. */
  async function open(file) {
    if (file.size > MOST_ARCHIVE) throw new Error(`${file.name} has more than ${MOST_ARCHIVE / 2 ** 20} MiB`);
    const { entries, bytes, from } = await ending(file);
    const view = new DataView(await part(file, from, bytes));
    const found = new Map();
    let [at, content] = [0, 0];
    for (let number = 0; number < entries; number += 1) {
      const entry = listed(view, at);
      at = entry.next;
      if (entry.name.endsWith("/")) continue;
      if (found.has(entry.name)) throw new Error(`${short(entry.name)} is in the archive twice`);
      content += entry.size;
      if (content > MOST_CONTENT) throw new Error(`the archive holds more than ${MOST_CONTENT / 2 ** 20} MiB`);
      found.set(entry.name, member(file, entry, from));
    }
    return found;
  }

  async function part(file, from, bytes) {
    if (from < 0 || bytes < 0 || from + bytes > file.size) throw new Error(`${file.name} is cut short or damaged`);
    return file.slice(from, from + bytes).arrayBuffer();
  }

  /** Where the directory of the archive is, as its last bytes say. */
  async function ending(file) {
    const length = Math.min(file.size, END_BYTES + MOST_COMMENT);
    const view = new DataView(await part(file, file.size - length, length));
    for (let at = length - END_BYTES; at >= 0; at -= 1) {
      if (view.getUint32(at, true) !== END || view.getUint16(at + 20, true) !== length - at - END_BYTES) continue;
      const [entries, bytes, from] = [view.getUint16(at + 10, true), view.getUint32(at + 12, true), view.getUint32(at + 16, true)];
      if (entries === 0xffff || from === 0xffffffff) throw new Error("archives in the ZIP64 form are not opened");
      if (view.getUint16(at + 4, true) || view.getUint16(at + 8, true) !== entries) throw new Error("the archive is one part of several");
      if (entries > MOST_ENTRIES) throw new Error(`the archive has more than ${MOST_ENTRIES} files`);
      if (bytes > MOST_DIRECTORY || from + bytes > file.size - length + at) throw new Error(`${file.name} is cut short or damaged`);
      return { entries, bytes, from };
    }
    throw new Error(`${file.name} is no zip archive`);
  }

  /** An entry of the directory. */
  function listed(view, at) {
    if (at + ENTRY_BYTES > view.byteLength || view.getUint32(at, true) !== ENTRY) throw new Error("the directory of the archive is damaged");
    const [name, extra, comment] = [28, 30, 32].map((place) => view.getUint16(at + place, true));
    const next = at + ENTRY_BYTES + name + extra + comment;
    if (next > view.byteLength) throw new Error("the directory of the archive is damaged");
    const entry = {
      next, name: named(new Uint8Array(view.buffer, at + ENTRY_BYTES, name)),
      method: view.getUint16(at + 10, true), crc: view.getUint32(at + 16, true),
      packed: view.getUint32(at + 20, true), size: view.getUint32(at + 24, true), from: view.getUint32(at + 42, true),
    };
    const what = short(entry.name);
    if (view.getUint16(at + 8, true) & 1) throw new Error(`${what} is encrypted`);
    if (entry.method !== STORED && entry.method !== DEFLATED) throw new Error(`${what} is neither stored nor deflated`);
    if (entry.size > MOST_ENTRY) throw new Error(`${what} has more than ${MOST_ENTRY / 2 ** 20} MiB`);
    const most = entry.method === STORED ? entry.packed : MOST_INFLATION * entry.packed;
    if (entry.size > most) throw new Error(`${what} declares more bytes than it can hold`);
    return entry;
  }

  function named(bytes) {
    let name;
    try {
      name = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    } catch {
      throw new Error("a name in the archive is no UTF-8");
    }
    const parts = name.replace(/\/$/, "").split("/");
    if (/[\0\\]/.test(name) || parts.some((each) => each === "" || each === "." || each === ".."))
      throw new Error(`${short(name)} is no name of a file in an archive`);
    return name;
  }

  const short = (name) => (name.length > 60 ? `${name.slice(0, 57)}...` : name);

  function member(file, entry, directory) {
    const arrayBuffer = () => content(file, entry, directory);
    return { name: entry.name, size: entry.size, arrayBuffer, text: async () => new TextDecoder().decode(await arrayBuffer()) };
  }

  async function content(file, entry, directory) {
    const damaged = new Error(`${short(entry.name)} is damaged`);
    const local = new DataView(await part(file, entry.from, LOCAL_BYTES));
    if (local.getUint32(0, true) !== LOCAL) throw damaged;
    const from = entry.from + LOCAL_BYTES + local.getUint16(26, true) + local.getUint16(28, true);
    if (from + entry.packed > directory) throw damaged;
    const packed = file.slice(from, from + entry.packed);
    const bytes = new Uint8Array(entry.size);
    let at = 0;
    try {
      const stream = entry.method === STORED ? packed.stream() : packed.stream().pipeThrough(new DecompressionStream("deflate-raw"));
      for (let reader = stream.getReader(), turn = await reader.read(); !turn.done; turn = await reader.read()) {
        if (at + turn.value.length > entry.size) {
          await reader.cancel();
          throw damaged;
        }
        bytes.set(turn.value, at);
        at += turn.value.length;
      }
    } catch {
      throw damaged;
    }
    if (at !== entry.size || checksum(bytes) !== entry.crc) throw damaged;
    return bytes.buffer;
  }

  function checksum(bytes) {
    let rest = 0xffffffff;
    for (let at = 0; at < bytes.length; at += 1) rest = (rest >>> 8) ^ CRC[(rest ^ bytes[at]) & 0xff];
    return (rest ^ 0xffffffff) >>> 0;
  }

  return { open };
})();
