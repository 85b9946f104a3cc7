package org.refdb.gerrit.cache.h2;

import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.LinkOption.NOFOLLOW_LINKS;
import static java.nio.file.StandardCopyOption.ATOMIC_MOVE;

import java.io.Closeable;
import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.Properties;

/** Writes a file in the form of the H2 caches of Gerrit, with the H2 of Gerrit. */
final class H2Writer implements Closeable {
  private static final int TEXT_CHARS_MAX = 4096;
  private static final int BATCH = 500;

  /** The file while it is not complete. */
  private final Path written;

  private final Path file;
  private final boolean text;
  private final int version;
  private final Connection connection;
  private final PreparedStatement insert;
  private long entries;
  private long bytes;
  private long tooLong;
  private SQLException failure;

  private H2Writer(Path written, Path file, boolean text, int version, Connection connection) throws SQLException {
    this.written = written;
    this.file = file;
    this.text = text;
    this.version = version;
    this.connection = connection;
    try (Statement statement = connection.createStatement()) {
      String type = text ? "VARCHAR(" + TEXT_CHARS_MAX + ")" : "OTHER";
      statement.execute(
          "CREATE TABLE data(k " + type + " NOT NULL PRIMARY KEY HASH, v OTHER NOT NULL, created TIMESTAMP NOT NULL,"
              + " accessed TIMESTAMP NOT NULL)");
      statement.execute("ALTER TABLE data ADD COLUMN space BIGINT AS OCTET_LENGTH(k) + OCTET_LENGTH(v)");
      statement.execute("ALTER TABLE data ADD COLUMN version INT DEFAULT 0 NOT NULL");
      statement.execute("CREATE INDEX version_key ON data(version, k)");
      statement.execute("CREATE INDEX accessed ON data(accessed)");
    }
    insert = connection.prepareStatement("INSERT INTO data (k, v, version, created, accessed) VALUES(?,?,?,?,?)");
    connection.setAutoCommit(false);
  }

  /**
   * Begins a file that only the user can read; the complete file replaces one that exists. H2 writes it in a folder
   * that only the user can enter, because H2, when it compacts the file, replaces it by one with the usual permissions.
   */
  static H2Writer create(Driver driver, Path file, boolean text, int version) throws IOException {
    Path folder = file.resolveSibling(file.getFileName() + ".private");
    delete(folder);
    Files.createDirectory(folder, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    Path written = folder.resolve(file.getFileName());
    Connection connection = null;
    try {
      connection = driver.connect(H2File.url(written), new Properties());
      return new H2Writer(written, file, text, version, connection);
    } catch (SQLException e) {
      closeQuietly(connection);
      delete(folder);
      throw new IOException("cannot write " + file + ": " + e.getMessage(), e);
    }
  }

  /** Deletes a folder and the files in it, or what else has this path, if anything. */
  private static void delete(Path folder) throws IOException {
    if (!Files.isDirectory(folder, NOFOLLOW_LINKS)) {
      Files.deleteIfExists(folder);
      return;
    }
    try (DirectoryStream<Path> files = Files.newDirectoryStream(folder)) {
      for (Path file : files) {
        Files.delete(file);
      }
    }
    Files.delete(folder);
  }

  private static void closeQuietly(Connection connection) {
    try {
      if (connection != null) {
        connection.close();
      }
    } catch (SQLException e) {
      // The file is complete already, or an error that says more is being thrown.
    }
  }

  void add(byte[] key, byte[] value, long createdMillis) {
    try {
      String name = text ? new String(key, UTF_8) : null;
      if (text && name.length() > TEXT_CHARS_MAX) {
        tooLong++;
        return;
      }
      if (text) {
        insert.setString(1, name);
      } else {
        insert.setBytes(1, key);
      }
      Timestamp created = new Timestamp(createdMillis);
      insert.setBytes(2, value);
      insert.setInt(3, version);
      insert.setTimestamp(4, created);
      insert.setTimestamp(5, created); // refdb does not record when an entry was last used
      insert.addBatch();
      entries++;
      bytes += key.length + value.length;
      if (entries % BATCH == 0) {
        insert.executeBatch();
        connection.commit();
      }
    } catch (SQLException e) {
      failure = e;
    }
  }

  boolean hasFailed() {
    return failure != null;
  }

  long entries() {
    return entries;
  }

  long bytes() {
    return bytes;
  }

  long tooLong() {
    return tooLong;
  }

  /** Writes the rest. The file is then complete and closed. */
  void finish() throws IOException {
    try {
      if (failure == null) {
        insert.executeBatch();
        connection.commit();
        try (Statement statement = connection.createStatement()) {
          statement.execute("SHUTDOWN COMPACT");
        }
        Files.setPosixFilePermissions(written, PosixFilePermissions.fromString("rw-------"));
        Files.move(written, file, ATOMIC_MOVE);
        return;
      }
    } catch (SQLException e) {
      failure = e;
    }
    throw new IOException("cannot write " + file + ": " + failure.getMessage(), failure);
  }

  /** Closes the file, and deletes it if it is not complete. */
  @Override
  public void close() throws IOException {
    closeQuietly(connection);
    delete(written.getParent());
  }
}
