package org.refdb.gerrit.cache;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/**
 * A cache file of Gerrit's H2 caches, read with Gerrit's own H2 as bytes: no value is deserialised.
 *
 * <p>Its place tells who had the caches last. At its own place, H2 had: what refdb has stored before is older. Once
 * refdb takes over it is set aside under another name, so that a return to H2 starts empty and a session that was
 * logged out since cannot revive.
 */
final class H2File {
  private static final String SUFFIX = ".mv.db";
  private static final String OWN = "-v2";
  private static final String ASIDE = "-before-refdb";
  private static final String IMPORTING = "-importing-to-refdb";
  private static final String CHANGED = IMPORTING + ".changed";
  private static final int ALREADY_IN_USE = 90020;

  private final Path directory;
  private final String cache;

  H2File(Path directory, String cache) {
    this.directory = directory;
    this.cache = cache;
  }

  /** Takes an entry; false ends the walk. */
  @FunctionalInterface
  interface Sink {
    boolean take(int version, byte[] key, byte[] value, long createdMillis);
  }

  /** Where H2 would have it. */
  Path own() {
    return directory.resolve(cache + OWN + SUFFIX);
  }

  /** Where it lies after refdb took over. */
  Path aside() {
    return directory.resolve(cache + ASIDE + SUFFIX);
  }

  /** Where it lies while it is imported, over restarts. */
  Path importing() {
    return directory.resolve(cache + IMPORTING + SUFFIX);
  }

  /** Where the keys are noted meanwhile that were changed since. */
  Path changedKeys() {
    return directory.resolve(cache + CHANGED);
  }

  /** The cache that a file at its own place belongs to, or null if it is no such file. */
  static String cacheOf(Path file) {
    String name = file.getFileName().toString();
    String end = OWN + SUFFIX;
    return name.endsWith(end) && name.length() > end.length() ? name.substring(0, name.length() - end.length()) : null;
  }

  /** Gives it another name, in place of a file that has it. */
  void move(Path from, Path to) throws IOException {
    Files.move(from, to, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
  }

  /** Nothing of it is wanted any more: sets it aside, wherever it lies. What an older import left goes. */
  void setAside(Path from) throws IOException {
    move(from, aside());
    Files.deleteIfExists(importing());
    Files.deleteIfExists(changedKeys());
  }

  /**
   * How many entries of each version it has.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has it open
   * @throws IOException if it cannot be read
   */
  Map<Integer, Long> count(Driver driver, Path file) throws IOException {
    Map<Integer, Long> counts = new TreeMap<>();
    query(driver, file, "SELECT version, COUNT(*) FROM data GROUP BY version", rows -> {
      while (rows.next()) {
        counts.put(rows.getInt(1), rows.getLong(2));
      }
    });
    return counts;
  }

  /** Shows every entry, those used last at the end. */
  void forEach(Driver driver, Path file, Sink sink) throws IOException {
    query(driver, file, "SELECT k, v, created, version FROM data ORDER BY accessed", rows -> {
      boolean textKeys = rows.getMetaData().getColumnType(1) == Types.VARCHAR;
      while (rows.next()) {
        byte[] key = textKeys ? rows.getString(1).getBytes(UTF_8) : rows.getBytes(1);
        Timestamp created = rows.getTimestamp(3);
        if (!sink.take(rows.getInt(4), key, rows.getBytes(2), created == null ? 0 : created.getTime())) {
          return;
        }
      }
    });
  }

  private interface Reader {
    void read(ResultSet rows) throws SQLException;
  }

  private static void query(Driver driver, Path file, String sql, Reader reader) throws IOException {
    try (Connection connection = connect(driver, file);
        Statement statement = connection.createStatement()) {
      try (ResultSet rows = statement.executeQuery(sql)) {
        reader.read(rows);
      } finally {
        // The file says itself that it stays open when the last connection is closed.
        statement.execute("SHUTDOWN");
      }
    } catch (SQLException e) {
      throw failure(file, e);
    }
  }

  private static Connection connect(Driver driver, Path file) throws SQLException {
    String path = file.toUri().toString();
    String url =
        "jdbc:h2:" + path.substring(0, path.length() - SUFFIX.length())
            + ";ACCESS_MODE_DATA=r;IFEXISTS=TRUE;LAZY_QUERY_EXECUTION=1";
    Connection connection = driver.connect(url, new Properties());
    if (connection == null) {
      throw new SQLException(driver + " does not know " + url);
    }
    return connection;
  }

  private static IOException failure(Path file, SQLException e) {
    if (e.getErrorCode() == ALREADY_IN_USE) {
      return new StoreOpener.InUseException(file + " is open in a server with H2 caches; stop that first", e);
    }
    return new IOException("cannot read " + file + ": " + e.getMessage(), e);
  }
}
