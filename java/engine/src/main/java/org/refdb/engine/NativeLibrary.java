package org.refdb.engine;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryIteratorException;
import java.nio.file.DirectoryNotEmptyException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.Properties;

/**
 * Loads the native library of the engine, which is contained in the jar as {@code native/PLATFORM/librefdb_jni.so}.
 *
 * <p>Because the operating system only loads libraries from files, the library is written to a private folder, loaded,
 * and removed immediately. Nothing is left behind unless the process is killed meanwhile, or the folder is on NFS,
 * where the file stays under another name until the process ends, and the private folder until a later start removes
 * it. No file that somebody else put there is loaded. The private folder is created in the folder that the caller
 * names, else in the one that the system property {@value #FOLDER_PROPERTY} names, else in the temporary folder. That
 * folder must not be mounted with {@code noexec}.
 */
public final class NativeLibrary {
  /** The system property that names the folder in which the library is unpacked. */
  public static final String FOLDER_PROPERTY = "refdb.native.dir";

  private static final String PREFIX = "refdb-";

  /** An empty folder that is younger than this may be one in which another process is about to unpack the library. */
  private static final long LEFT_SECONDS = 3600;

  private static boolean loaded;

  private NativeLibrary() {}

  /**
   * Loads the library, unless it is loaded already.
   *
   * @throws EngineLoadException if the library cannot be used; the next call tries again
   */
  public static void load() throws EngineLoadException {
    load(defaultFolder(), "name with -D" + FOLDER_PROPERTY + "=FOLDER");
  }

  /**
   * Loads the library, unless it is loaded already.
   *
   * @param folder the folder in which to unpack the library, which is created if it does not exist
   * @param howToChoose the beginning of the advice, before "another folder", if this one is not usable
   * @throws EngineLoadException if the library cannot be used; the next call tries again
   */
  public static synchronized void load(Path folder, String howToChoose) throws EngineLoadException {
    if (loaded) {
      return;
    }
    Platform platform = Platform.current();
    try (InputStream content = platform.open()) {
      loadFrom(content, platform, folder, howToChoose);
    } catch (IOException e) {
      throw new EngineLoadException(LoadAdvice.ofUnpacking(e, folder, howToChoose), e);
    }
    String found = new String(nativeVersion(), StandardCharsets.US_ASCII);
    String wanted = version();
    if (!found.equals(wanted)) {
      throw new EngineLoadException(
          "refdb's jar is of version " + wanted + " but its native library of version " + found
              + ": remove the jars of other versions and restart",
          null);
    }
    loaded = true;
  }

  /** Returns whether the library is loaded. */
  public static synchronized boolean isLoaded() {
    return loaded;
  }

  /** Returns the version of this jar. A library of another version is not used. */
  public static String version() {
    Properties properties = new Properties();
    try (InputStream stream = NativeLibrary.class.getResourceAsStream("engine.properties")) {
      properties.load(stream);
    } catch (IOException e) {
      throw new IllegalStateException("refdb's jar is damaged: engine.properties cannot be read", e);
    }
    return properties.getProperty("version");
  }

  private static Path defaultFolder() {
    String named = System.getProperty(FOLDER_PROPERTY);
    return Path.of(named != null && !named.isEmpty() ? named : System.getProperty("java.io.tmpdir"));
  }

  private static void loadFrom(InputStream content, Platform platform, Path parent, String howToChoose)
      throws IOException, EngineLoadException {
    Files.createDirectories(parent);
    removeLeft(parent);
    Path folder =
        Files.createTempDirectory(
            parent.toAbsolutePath(),
            PREFIX,
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    Path file = folder.resolve(Platform.FILE_NAME);
    try {
      Files.copy(content, file);
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      throw new EngineLoadException(LoadAdvice.of(e.getMessage(), file, platform, howToChoose), e);
    } finally {
      // A loaded library remains usable after its file is deleted, like any open file.
      Files.deleteIfExists(file);
      try {
        Files.deleteIfExists(folder);
      } catch (DirectoryNotEmptyException e) {
        // NFS keeps the file of a loaded library as .nfs... in the folder.
      }
    }
  }

  /** Removes the private folders that earlier processes have left, as on NFS, and that are empty now. */
  private static void removeLeft(Path parent) {
    Instant before = Instant.now().minusSeconds(LEFT_SECONDS);
    try (DirectoryStream<Path> folders = Files.newDirectoryStream(parent, PREFIX + "*")) {
      for (Path folder : folders) {
        removeLeft(folder, before);
      }
    } catch (IOException | DirectoryIteratorException e) {
      // A later start may be able to list the folder.
    }
  }

  private static void removeLeft(Path folder, Instant before) {
    try {
      if (folder.getFileName().toString().substring(PREFIX.length()).matches("[0-9]+")
          && Files.isDirectory(folder, LinkOption.NOFOLLOW_LINKS)
          && Files.getLastModifiedTime(folder).toInstant().isBefore(before)) {
        Files.delete(folder);
      }
    } catch (IOException e) {
      // It is not empty, it is another user's, or another process has removed it.
    }
  }

  private static native byte[] nativeVersion();
}
