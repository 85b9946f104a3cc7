package org.refdb.gerrit.plugin;

import com.google.gerrit.extensions.annotations.PluginName;
import com.google.gerrit.sshd.BaseCommand;
import com.google.gerrit.sshd.CommandName;
import com.google.gerrit.sshd.DispatchCommandProvider;
import com.google.gerrit.sshd.PluginCommandModule;
import com.google.inject.Inject;
import org.refdb.gerrit.refs.RefdbAdmin;

/** The SSH commands: {@code ssh HOST refdb COMMAND}, for caches {@code ssh HOST refdb cache COMMAND}. */
public final class CommandsModule extends PluginCommandModule {
  private final CommandName caches;

  /** Null where refdb has the caches only. */
  @Inject(optional = true)
  private RefdbAdmin refs;

  @Inject
  CommandsModule(@PluginName String plugin) {
    super(plugin);
    caches = com.google.gerrit.sshd.Commands.named(com.google.gerrit.sshd.Commands.named(plugin), "cache");
  }

  @Override
  protected void configureCommands() {
    command(Commands.Status.class);
    if (refs != null) {
      command(Commands.Stat.class);
      command(Commands.Verify.class);
      command(Commands.Flush.class);
      command(Commands.Warm.class);
      command(Commands.Shadow.class);
      command(Commands.DeleteBroken.class);
    }
    command("cache").toProvider(new DispatchCommandProvider(caches));
    cacheCommand(CacheCommands.Stat.class);
    cacheCommand(CacheCommands.Verify.class);
    cacheCommand(CacheCommands.Compact.class);
    cacheCommand(CacheCommands.Top.class);
    cacheCommand(CacheCommands.Export.class);
    cacheCommand(CacheCommands.Import.class);
  }

  private void cacheCommand(Class<? extends BaseCommand> type) {
    command(caches, type);
  }
}
