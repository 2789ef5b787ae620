"use strict";
// Arrays of numpy: npz archives of npy files with one-dimensional integers, single integers and texts.
explorer.arrays = (() => {
  const MOST_HEADER = 4096;
  const HEADER = /^\{'descr': '([<|=]?[iuU]\d{1,4})', 'fortran_order': (?:False|True), 'shape': \((?:(\d{1,10}),)?\), \}\s*$/;
  const KINDS = {
    i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array,
    u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, u8: BigUint64Array,
  };

  /** The arrays of an npz file by name: arrays of numbers, a number, or a text. */
  async function read(file) {
    const found = new Map();
    for (const [name, member] of await explorer.archive.open(file)) {
      if (!/^\w+\.npy$/.test(name)) throw new Error(`${file.name} is no archive of arrays`);
      found.set(name.slice(0, -4), array(name.slice(0, -4), await member.arrayBuffer()));
    }
    return found;
  }

  function array(name, buffer) {
    const unreadable = new Error(`the array ${name} has no readable header`);
    const bytes = new Uint8Array(buffer);
    if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(1, 6)) !== "NUMPY" || bytes[0] !== 0x93) throw unreadable;
    const view = new DataView(buffer);
    const [length, start] = bytes[6] === 1 ? [view.getUint16(8, true), 10] : [view.getUint32(8, true), 12];
    if (bytes[6] > 2 || length > MOST_HEADER || start + length > bytes.length) throw unreadable;
    const header = String.fromCharCode(...bytes.subarray(start, start + length)).match(HEADER);
    if (!header) throw new Error(`the array ${name} is not of one dimension, or not of integers or a text`);
    const [kind, size] = [header[1].replace(/^[<|=]/, ""), header[2]];
    const content = buffer.slice(start + length);
    const width = kind[0] === "U" ? 4 * Number(kind.slice(1)) : Number(kind.slice(1));
    if (content.byteLength !== width * Number(size ?? 1)) throw new Error(`the array ${name} has not as many bytes as it declares`);
    if (kind[0] === "U") {
      if (size !== undefined) throw new Error(`the array ${name} is not a single text`);
      return text(name, content);
    }
    if (!KINDS[kind]) throw unreadable;
    const values = numbers(name, new KINDS[kind](content));
    return size === undefined ? values[0] : values;
  }

  function text(name, content) {
    const letters = [...new Uint32Array(content)].filter((letter) => letter);
    if (letters.some((letter) => letter > 0x10ffff)) throw new Error(`the array ${name} is no text`);
    return String.fromCodePoint(...letters);
  }

  function numbers(name, values) {
    if (!(values instanceof BigInt64Array || values instanceof BigUint64Array)) return values;
    const found = Float64Array.from(values, Number);
    if (!found.every(Number.isSafeInteger)) throw new Error(`the array ${name} has numbers that are too large`);
    return found;
  }

  return { read };
})();
