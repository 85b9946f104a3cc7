package org.refdb.gerrit.cache.h2;

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
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.refdb.gerrit.cache.store.StoreOpener;

/**
 * A cache file of Gerrit's H2 caches, read with Gerrit's own H2 as bytes: no value is deserialised.
 *
 * <p>Its place tells who had the caches last. At its own place, H2 had: what refdb has stored before is older. Once
 * refdb takes over it is set aside under another name. So a return to H2 starts empty, and a session that was
 * logged out since cannot revive.
 */
final class H2File {
  static final String SUFFIX = ".mv.db";
  private static final String TRACE = ".trace.db";
  private static final String OWN = "-v2";
  private static final String ASIDE = "-before-refdb";
  private static final String IMPORTING = "-importing-to-refdb";
  private static final String CHANGED = IMPORTING + ".changed";
  private static final String EXPORTING = "-exported-by-refdb";
  private static final int ALREADY_IN_USE = 90020;

  /** There is no table at all: Gerrit makes the file when it starts, and its table when something is stored. */
  private static final int EMPTY = 42104;

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

  /** Where an export is written until it is whole. */
  Path exporting() {
    return directory.resolve(cache + EXPORTING + SUFFIX);
  }

  /** Whether a file was set aside, or is what H2 wrote beside one. */
  static boolean isAside(Path file) {
    return has(file, ASIDE, SUFFIX) || has(file, ASIDE, TRACE);
  }

  /** Whether a file belongs to an import that is under way. */
  static boolean isImporting(Path file) {
    return has(file, IMPORTING, SUFFIX) || has(file, IMPORTING, TRACE) || file.toString().endsWith(CHANGED);
  }

  private static boolean has(Path file, String place, String suffix) {
    return file.getFileName().toString().endsWith(place + suffix);
  }

  /** The cache that a file at its own place, or one that is imported, belongs to. Null if it is no such file. */
  static String cacheOf(Path file) {
    String name = file.getFileName().toString();
    for (String end : new String[] {OWN + SUFFIX, IMPORTING + SUFFIX}) {
      if (name.endsWith(end) && name.length() > end.length()) {
        return name.substring(0, name.length() - end.length());
      }
    }
    return null;
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
   * What it has of one version of the cache.
   *
   * @param bytes of keys and values
   * @param newestMillis when the newest entry was made
   */
  record Version(int version, long entries, long bytes, long newestMillis) {}

  /**
   * What it has of each version.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has it open
   * @throws IOException if it cannot be read
   */
  List<Version> versions(Driver driver, Path file) throws IOException {
    List<Version> versions = new ArrayList<>();
    String sql =
        "SELECT version, COUNT(*), SUM(OCTET_LENGTH(k) + OCTET_LENGTH(v)), MAX(created) FROM data GROUP BY version";
    query(driver, file, sql, rows -> {
      while (rows.next()) {
        versions.add(new Version(rows.getInt(1), rows.getLong(2), rows.getLong(3), millis(rows.getTimestamp(4))));
      }
    });
    return versions;
  }

  /** How many entries of one version it has, without reading them; exceptions as above. */
  long count(Driver driver, Path file, int version) throws IOException {
    long[] count = new long[1];
    query(driver, file, "SELECT COUNT(*) FROM data WHERE version = " + version, rows -> {
      while (rows.next()) {
        count[0] = rows.getLong(1);
      }
    });
    return count[0];
  }

  /**
   * Does nothing.
   *
   * @throws StoreOpener.InUseException if a server with H2 caches has the file at its own place open
   */
  void refuseIfInUse(Driver driver) throws StoreOpener.InUseException {
    if (Files.exists(own())) {
      try {
        hasTextKeys(driver, own());
      } catch (StoreOpener.InUseException e) {
        throw e;
      } catch (IOException e) {
        // harmed, but nobody's
      }
    }
  }

  /** Whether its keys are text. */
  boolean hasTextKeys(Driver driver, Path file) throws IOException {
    boolean[] text = new boolean[1];
    query(driver, file, "SELECT k FROM data WHERE FALSE", rows -> text[0] = isText(rows));
    return text[0];
  }

  private static boolean isText(ResultSet rows) throws SQLException {
    return rows.getMetaData().getColumnType(1) == Types.VARCHAR;
  }

  private static long millis(Timestamp time) {
    return time == null ? 0 : time.getTime();
  }

  /** Shows every entry, those used last at the end. */
  void forEach(Driver driver, Path file, Sink sink) throws IOException {
    query(driver, file, "SELECT k, v, created, version FROM data ORDER BY accessed", rows -> {
      boolean textKeys = isText(rows);
      while (rows.next()) {
        byte[] key = textKeys ? rows.getString(1).getBytes(UTF_8) : rows.getBytes(1);
        if (!sink.take(rows.getInt(4), key, rows.getBytes(2), millis(rows.getTimestamp(3)))) {
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
      if (e.getErrorCode() != EMPTY) {
        throw failure(file, e);
      }
    }
  }

  private static Connection connect(Driver driver, Path file) throws SQLException {
    String url = url(file) + ";ACCESS_MODE_DATA=r;IFEXISTS=TRUE;LAZY_QUERY_EXECUTION=1";
    Connection connection = driver.connect(url, new Properties());
    if (connection == null) {
      throw new SQLException(driver + " does not know " + url);
    }
    return connection;
  }

  /** How H2 is told of a file. */
  static String url(Path file) {
    String path = file.toUri().toString();
    return "jdbc:h2:" + path.substring(0, path.length() - SUFFIX.length());
  }

  private static IOException failure(Path file, SQLException e) {
    if (e.getErrorCode() == ALREADY_IN_USE) {
      return new StoreOpener.InUseException(file + " is open in a server with H2 caches; stop that first", e);
    }
    return new IOException("cannot read " + file + ": " + e.getMessage(), e);
  }
}
