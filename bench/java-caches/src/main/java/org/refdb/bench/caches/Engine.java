package org.refdb.bench.caches;

import java.nio.file.Path;

/** A cache that is measured. */
interface Engine extends AutoCloseable {
  byte[] get(byte[] key) throws Exception;

  /** Returns false if the cache refused the value. */
  boolean put(byte[] key, byte[] value) throws Exception;

  void clear() throws Exception;

  @Override
  void close() throws Exception;

  /**
   * Opens an engine in a folder of its own. {@code entries} limits ChronicleMap, {@code limitBytes} limits refdb, and
   * nothing limits H2.
   */
  static Engine open(String name, Path folder, long entries, long limitBytes) throws Exception {
    return switch (name) {
      case "refdb" -> new RefdbEngine(folder, limitBytes);
      case "chronicle" -> new ChronicleEngine(folder, entries);
      case "h2" -> new H2Engine(folder);
      default -> throw new IllegalArgumentException("no engine " + name);
    };
  }
}
