package org.refdb.engine;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Properties;

/**
 * Loads the engine's library, which travels in the jar as {@code native/PLATFORM/librefdb_jni.so}.
 *
 * <p>The operating system loads libraries from files only. So it is written into a folder of its own that nobody else
 * may enter, loaded, and removed at once. Nothing is left behind, and nothing that someone else put there is ever
 * loaded. That folder is made in the folder that the caller names. Without one, it is made in the folder that the
 * system property {@value #FOLDER_PROPERTY} names, else in the temporary folder. It must allow to execute files ({@code
 * noexec} mounts do not).
 */
public final class NativeLibrary {
  /** The system property that names the folder to unpack in. */
  public static final String FOLDER_PROPERTY = "refdb.native.dir";

  private static boolean loaded;

  private NativeLibrary() {}

  /**
   * Loads the library, unless that is done.
   *
   * @throws EngineLoadException if it cannot be used here; the next call tries again
   */
  public static void load() throws EngineLoadException {
    load(defaultFolder(), "name with -D" + FOLDER_PROPERTY + "=FOLDER");
  }

  /**
   * Loads the library, unless that is done.
   *
   * @param folder where to unpack it, made if it is missing
   * @param howToChoose what a message says before "another folder", if this one will not do
   * @throws EngineLoadException if it cannot be used here; the next call tries again
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

  /** Whether the library is loaded. */
  public static synchronized boolean isLoaded() {
    return loaded;
  }

  /** The version of this jar, which is also the library's. */
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
    Path folder =
        Files.createTempDirectory(
            parent.toAbsolutePath(),
            "refdb-",
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
    Path file = folder.resolve(Platform.FILE_NAME);
    try {
      Files.copy(content, file);
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      throw new EngineLoadException(LoadAdvice.of(e.getMessage(), file, platform, howToChoose), e);
    } finally {
      // A loaded library stays, as every open file does.
      Files.deleteIfExists(file);
      Files.deleteIfExists(folder);
    }
  }

  private static native byte[] nativeVersion();
}
