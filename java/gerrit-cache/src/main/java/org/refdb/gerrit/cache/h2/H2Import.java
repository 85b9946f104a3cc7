package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.Path;

/**
 * An import from an H2 file that is under way, as the files say it. During the import the file has a name of its own.
 * Beside it lie the keys that were changed since. A restart finds both and goes on. Not safe for use by many threads.
 */
final class H2Import {
  private final H2File file;
  private final ChangedKeys changed;
  private boolean ended;

  private H2Import(H2File file, ChangedKeys changed) {
    this.file = file;
    this.changed = changed;
  }

  /** Begins to import from a file that lies at its own place. The store must be empty. */
  static H2Import begin(H2File file) throws IOException {
    ChangedKeys changed = ChangedKeys.create(file.changedKeys());
    file.move(file.own(), file.importing());
    return new H2Import(file, changed);
  }

  /**
   * Goes on with an import that was cut short.
   *
   * @throws IOException if it is not known what was changed since; then nothing may be imported any more
   */
  static H2Import resume(H2File file) throws IOException {
    return new H2Import(file, ChangedKeys.resume(file.changedKeys()));
  }

  /** The file that is imported. */
  Path source() {
    return file.importing();
  }

  /** Whether older entries are still wanted. */
  boolean isUnderWay() {
    return !ended;
  }

  /** Whether this key has not been changed since the import began. */
  boolean wants(byte[] key) {
    return !ended && !changed.contains(key);
  }

  /** A key is about to be changed: its older value is not wanted any more. */
  void note(byte[] key) throws IOException {
    if (!ended) {
      changed.add(key);
    }
  }

  /** Nothing more is imported, also not after a restart. */
  void finish() throws IOException {
    if (!ended) {
      ended = true;
      file.setAside(file.importing());
      changed.discard();
    }
  }

  /** Nothing more is imported by this process; the next one goes on. */
  void suspend() throws IOException {
    if (!ended) {
      ended = true;
      changed.close();
    }
  }
}
