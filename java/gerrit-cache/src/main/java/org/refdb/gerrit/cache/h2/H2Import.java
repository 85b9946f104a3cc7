package org.refdb.gerrit.cache.h2;

import java.io.IOException;
import java.nio.file.Path;

/**
 * The state of an import from an H2 file, as the names of files record it. During the import the H2 file has a name of
 * its own, and beside it is a file with the keys that were changed since the import began. A restart finds both and
 * continues the import. Not safe for use by several threads.
 */
final class H2Import {
  private final H2File file;
  private final ChangedKeys changed;
  private boolean ended;

  private H2Import(H2File file, ChangedKeys changed) {
    this.file = file;
    this.changed = changed;
  }

  /** Begins an import from a file at its own path. The store must be empty. */
  static H2Import begin(H2File file) throws IOException {
    ChangedKeys changed = ChangedKeys.create(file.changedKeys());
    file.move(file.own(), file.importing());
    return new H2Import(file, changed);
  }

  /**
   * Continues an import that was interrupted.
   *
   * @throws IOException if it is not known what was changed since, so that nothing may be imported any more
   */
  static H2Import resume(H2File file) throws IOException {
    return new H2Import(file, ChangedKeys.resume(file.changedKeys()));
  }

  /** Returns the file that is being imported. */
  Path source() {
    return file.importing();
  }

  /**
   * Returns whether the older value of this key is still to be imported, because the key was not changed since the
   * import began.
   */
  boolean wants(byte[] key) {
    return !ended && !changed.contains(key);
  }

  /** Records that a key is about to be changed, so that its older value is not imported any more. */
  void note(byte[] key) throws IOException {
    if (!ended) {
      changed.add(key);
    }
  }

  /**
   * Ends the import, which is not continued after a restart, even if this throws because the file cannot be set aside.
   */
  void finish() throws IOException {
    if (!ended) {
      ended = true;
      try {
        changed.discard();
      } finally {
        file.setAside(file.importing());
      }
    }
  }

  /** Ends the import in this process; the next process continues it. */
  void suspend() throws IOException {
    if (!ended) {
      ended = true;
      changed.close();
    }
  }
}
